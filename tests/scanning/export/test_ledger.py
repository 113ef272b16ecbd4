"""The ledger of a job: the next run reads it, after any crash of an earlier run."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.export.job import ExportedPartition, ExportJob
from kafka_remote_client.scanning.export.ledger import ExportLedger
from kafka_remote_client.scanning.export.target import ExportTarget, target_of
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit
from kafka_remote_client.scanning.splits import Split
from tests.support.counted_files import counted_files

ORDERS = TopicPartition("orders", 0)
SPLITS = (Split(ORDERS, 0, 5, 10), Split(ORDERS, 5, 9, 10))


def job(name: str, start: int = 0, end: int = 9) -> ExportJob:
    return ExportJob(name, {"columns": "key"}, (ExportedPartition(ORDERS, "id", start, end),), SPLITS)


def nothing(operation: str, path: str) -> None:
    pass


@pytest.fixture
def target(tmp_path: Path) -> ExportTarget:
    return target_of(tmp_path)


def test_an_unstarted_job_has_no_plan(target: ExportTarget) -> None:
    ledger = ExportLedger(target, "january")
    assert (ledger.known_job(), ledger.commit_plan(), ledger.finished(), ledger.records(SPLITS)) == (None, None, None, {})


def test_the_later_record_of_two_attempts_is_used(target: ExportTarget) -> None:
    ledger = ExportLedger(target, "january")
    ledger.begin(job("january"))
    assert ledger.known_job() == job("january")
    one = WrittenSplit(SPLITS[0].id, (WrittenFile("_staging/a", "a.parquet", 1, 2),))
    other = WrittenSplit(SPLITS[0].id, (WrittenFile("_staging/b", "a.parquet", 1, 2),))
    ledger.record(one)
    ledger.record(other)
    ledger.record(WrittenSplit("another-0-0-1"))
    assert ledger.records(SPLITS) == {SPLITS[0].id: other}


def test_splits_of_the_longest_topic_have_records(target: ExportTarget) -> None:
    splits = [Split(TopicPartition(end.rjust(249, "t"), 0), 0, 5, 10) for end in "ab"]
    ledger = ExportLedger(target, "january")
    ledger.record(WrittenSplit(splits[1].id))
    assert ledger.records(splits) == {splits[1].id: WrittenSplit(splits[1].id)}


def test_a_truncated_ledger_record_is_ignored(target: ExportTarget) -> None:
    ledger = ExportLedger(target, "january")
    with target.create(ledger.paths.split(SPLITS[0].id)) as file:
        file.write(b'{"split":')
    assert ledger.records(SPLITS) == {}


def test_a_plan_is_kept_despite_later_plans(target: ExportTarget) -> None:
    ledger = ExportLedger(target, "january")
    plan = (WrittenSplit(SPLITS[0].id, (WrittenFile("_staging/a", "a.parquet", 1, 2),)), WrittenSplit(SPLITS[1].id))
    ledger.plan_commit(plan)
    ledger.record(WrittenSplit(SPLITS[0].id))
    assert ledger.commit_plan() == plan


def test_a_finished_job_leaves_no_staged_file(target: ExportTarget) -> None:
    ledger = ExportLedger(target, "january")
    ledger.begin(job("january"))
    ledger.finish(job("january"), [WrittenSplit(SPLITS[0].id)])
    assert ledger.finished() == (WrittenSplit(SPLITS[0].id),)
    assert target.names("_staging") == []
    assert ledger.known_job() == ExportJob("january", {"columns": "key"}, job("january").partitions)
    target.delete_file(ledger.paths.done_files)
    with pytest.raises(ExportError, match=r"its list of files, _exports/january/files\.json, is missing"):
        ledger.finished()


class SimulatedKill(BaseException):
    """Ends the run, as the death of the process does."""


@pytest.mark.parametrize("name", ["files.json", "job.json"])
def test_a_run_that_is_killed_at_its_end_leaves_no_file_behind(tmp_path: Path, name: str) -> None:
    def kill(operation: str, path: str) -> None:
        if operation == "move" and path.endswith(f"_exports/january/{name}"):
            raise SimulatedKill

    killed, following = (ExportLedger(target_of(str(tmp_path), counted_files(kill)), "january") for kill in (kill, nothing))
    killed.begin(job("january"))
    with pytest.raises(SimulatedKill):
        killed.finish(job("january"), [WrittenSplit(SPLITS[0].id)])
    following.finish(job("january"), [WrittenSplit(SPLITS[0].id)])
    files = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(files) == ["_exports/january/files.json", "_exports/january/job.json"]


@pytest.mark.parametrize(
    ("done", "told"),
    [
        (False, "january is not finished and has offsets 0 to 8 of orders-0 in this target; run it again or choose another"),
        (True, r"january has offsets 0 to 8 of orders-0 in this target already; start at 9 \(start_offset, --start\) or"),
    ],
)
def test_offsets_of_another_job_are_refused(target: ExportTarget, done: bool, told: str) -> None:
    first = ExportLedger(target, "january")
    first.begin(job("january"))
    if done:
        first.finish(job("january"), [])
    target.write_json("_staging/empty/splits/a.json", {})
    with pytest.raises(ConfigurationError, match=f"export job {told}"):
        ExportLedger(target, "february").begin(job("february", 8, 12))
    ExportLedger(target, "february").begin(job("february", 9, 12))


def test_files_that_are_not_jobs_are_ignored(target: ExportTarget) -> None:
    for folder in ("_exports", "_staging"):
        target.write_json(f"{folder}/.DS_Store", 1)
        target.write_json(f"{folder}/README.md", 1)
    ExportLedger(target, "january").begin(job("january"))
    assert ExportLedger(target, "january").known_job() == job("january")


def test_removed_published_files_are_reported(target: ExportTarget) -> None:
    ledger = ExportLedger(target, "january")
    paths = [ledger.paths.in_place(split.id, 0, "a") for split in SPLITS]
    written = [WrittenSplit(split.id, (WrittenFile(path, path, 1, 1),)) for split, path in zip(SPLITS, paths, strict=True)]
    for path in paths:
        target.write_json(path, 1)
    ledger.check_in_place(written)
    target.delete_file(paths[1])
    with pytest.raises(
        ExportError, match=r"1 files of export job january were removed before its commit, .*-5-9-.*_staging/january"
    ):
        ledger.check_in_place(written)


def test_the_first_plan_wins(target: ExportTarget) -> None:
    one, other = ([WrittenSplit(SPLITS[0].id, (WrittenFile(name, name, 1, 1),))] for name in ("a", "b"))
    assert ExportLedger(target, "january").plan_commit(one) == one
    assert list(ExportLedger(target, "january").plan_commit(other)) == one


def test_of_two_plans_at_once_the_first_one_counts(target: ExportTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run writes its plan after this run found none."""
    one, other = ([WrittenSplit(SPLITS[0].id, (WrittenFile(name, name, 1, 1),))] for name in ("a", "b"))
    ledger, asked = ExportLedger(target, "january"), []
    real = ExportLedger.commit_plan

    def overtaken(self: ExportLedger) -> object:
        found = real(self)
        asked.append(found)
        if len(asked) == 1:
            assert ExportLedger(target, "january").plan_commit(other) == other
        return found

    monkeypatch.setattr(ExportLedger, "commit_plan", overtaken)
    assert list(ledger.plan_commit(one)) == other
    assert asked[0] is None
    assert ledger.planned_files() == {"a", "b"}


def test_a_plan_that_is_removed_meanwhile_is_reported(target: ExportTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = ExportLedger(target, "january")
    ledger.plan_commit([])
    monkeypatch.setattr(ExportLedger, "commit_plan", lambda self: None)
    with pytest.raises(ExportError, match="another run of export job january is active"):
        ledger.plan_commit([])
