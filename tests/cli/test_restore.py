import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.restore import parse_counts, parse_gaps, parse_ids, parse_log_starts, read_configs
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition, uuid_to_text
from kafka_remote_client.restore.bootstrap_checkpoint import BOOTSTRAP, has_topics
from kafka_remote_client.restore.restore_plan import Gap
from tests.support.embedded_topics import fill_topic, small_cluster
from tests.support.golden import golden_aiven, golden_local
from tests.support.new_node import formatted

STORE = (golden_local() / "remote").as_uri()


def restore(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Status, standard output and error."""
    with pytest.raises(SystemExit) as stopped:
        run(["restore", *arguments])
    out, err = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, out, err


def configs(directory: Path, *topics: str) -> str:
    path = directory / "topics.json"
    path.write_text(json.dumps({topic: {"retention.ms": -1} for topic in topics}))
    return str(path)


def given(folder: Path, configs: str) -> list[str]:
    return ["--to", str(folder), "--configs", configs]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A formatted folder."""
    return formatted(tmp_path / "node")


def test_shows_the_plan_and_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path) -> None:
    status, out, err = restore(
        capsys,
        "txn",
        "delrec",
        "--store",
        STORE,
        "--dry-run",
        "--to",
        str(folder),
        "--configs",
        configs(tmp_path, "txn", "delrec"),
    )
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "partition  log start   end  segments   bytes  gaps  hanging",
        "txn-0              0  2695        25  498173     0        1",
        "delrec-0         400   800         2  108439     0        0",
        "txn-0 lacks: offsets from 2695 on: they were only on the brokers",
        "txn-0 hanging: the transaction of producer 8 from offset 2455 on",
        "delrec-0 lacks: offsets from 800 on: they were only on the brokers",
        "delrec-0 lacks: a log start above 400, if records were deleted",
    ]
    assert sorted(path.name for path in folder.iterdir()) == [BOOTSTRAP, "meta.properties"]


def test_plans_all_topics_of_a_store_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = restore(capsys, "--store", STORE, "--dry-run", "--output", "json")
    *partitions, plan = map(json.loads, out.splitlines())
    assert status == 1  # no topic has configs
    assert {one["type"] for one in partitions} == {"partition"}
    assert (plan["type"], plan["partitions"]) == ("plan", len(partitions))
    assert f"{partitions[0]['topic']}: the tier does not have the topic's configs: add them (--configs)" in plan["refusals"]


def test_plans_a_topic_once_that_is_named_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["--store", STORE, "--dry-run", "--output", "json", "--configs", configs(tmp_path, "delrec")]
    _, out, _ = restore(capsys, "delrec", "delrec", *given)
    assert [json.loads(line)["type"] for line in out.splitlines()] == ["partition", "plan"]


def test_restores_and_prints_what_is_left_to_do(capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path) -> None:
    status, out, err = restore(
        capsys,
        "txn",
        "--store",
        STORE,
        "--to",
        str(folder),
        "--configs",
        configs(tmp_path, "txn"),
        "--bootstrap-servers",
        "k:9092",
    )
    assert status == 0
    assert err == "kafka-remote: txn-0: 25 segments, offsets to 2695\n"
    assert out.splitlines()[-4:] == [
        "restored; new producers get ids from 1002010 on",
        "start the node, then run, before consumers start:",
        "  kafka-transactions.sh --bootstrap-server k:9092 abort --topic txn --partition 0 --start-offset 2455",
        "  kafka-consumer-groups.sh --bootstrap-server k:9092 --group GROUP --reset-offsets --from-file OFFSETS.csv --execute",
    ]
    assert has_topics((folder / BOOTSTRAP).read_bytes())


def test_restores_an_encrypted_tier(capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path) -> None:
    golden = golden_aiven("aiven-zstd-aes")
    place = ["--store", (golden / "remote").as_uri(), "--layout", "aiven", "--key-prefix", "some-prefix/"]
    key = ["--encryption-key", f"key1={golden / 'keys' / 'key1.private.der'}"]
    more = ["--to", str(folder), "--configs", configs(tmp_path, "epochs"), "--output", "json"]
    status, out, _ = restore(capsys, "epochs", *place, *key, *more)
    *partitions, plan, done = map(json.loads, out.splitlines())
    assert (status, done["type"], done["abort_commands"]) == (0, "restored", [])
    assert done["copied_bytes"] == plan["bytes"]
    logs = {path.name: path.stat().st_size for path in (folder / "epochs-0").glob("*.log")}
    assert len(logs) == partitions[0]["segments"] + 1
    assert sum(logs.values()) == partitions[0]["bytes"]


def test_a_refused_plan_writes_nothing(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    status, out, _ = restore(capsys, "txn", "--store", STORE, "--to", str(folder), "--partitions", "txn=2")
    assert status == 1
    assert out.splitlines()[-2:] == [
        "created empty: txn-1",
        "refused: txn: the tier does not have the topic's configs: add them (--configs)",
    ]
    assert not (folder / "txn-0").exists()


@pytest.mark.embedded
def test_asks_a_metadata_topic_which_copies_are_live(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with small_cluster(tmp_path / "tier") as cluster:
        fill_topic(cluster, "orders", 300, (0,))
        log = min((tmp_path / "tier").rglob("*.log"))
        name = log.name.removesuffix(".log")
        for path in log.parent.glob(f"{name}.*"):  # a copy that nobody said is finished
            shutil.copy(path, path.with_name(path.name.replace(name, f"{name[:-22]}{uuid_to_text(UUID(int=1))}")))
        asked = ["orders", "--store", cluster.directory.as_uri(), "--dry-run", "--output", "json"]
        asked += ["--configs", configs(tmp_path, "orders")]
        status, out, _ = restore(capsys, *asked)
        assert status == 1
        assert "several segments hold offsets" in out
        status, out, _ = restore(capsys, *asked, "--metadata-servers", cluster.bootstrap_servers)
        partition = json.loads(out.splitlines()[0])
        assert (status, partition["refusals"]) == (0, [])
        assert any("unfinished by the metadata topic" in line for line in partition["missing"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["txn"], "--to"),
        (["absent", "--dry-run"], "found no segments of absent; the store has"),
        (["txn", "absent", "--dry-run"], "the store has no segments of absent"),
        (["txn", "--dry-run", "--configs", "/absent.json"], "--configs: /absent.json cannot be read"),
        (["txn", "--dry-run", "--assignment", "/absent.json"], "--assignment: /absent.json cannot be read"),
        (["txn", "--dry-run", "--adopt"], "--adopt is not supported: a wrong order of steps lets the broker delete the tier"),
        (
            ["txn", "--dry-run", "--without-segment", "AAAAAAAAAAAAAAAAAAAAAQ"],
            "--without-segment: found no segment AAAAAAAAAAAAAAAAAAAAAQ of txn; kafka-remote ls shows the segments",
        ),
        (["txn", "--dry-run", "--log-start", "txn=0"], "--log-start: 'txn=0' is not TOPIC-PARTITION=OFFSET"),
    ],
)
def test_says_what_is_wrong(capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str) -> None:
    status, _, err = restore(capsys, "--store", STORE, *arguments)
    assert status != 0
    assert said in err


def test_parses_its_options() -> None:
    at = TopicPartition("a-b.c", 3)
    assert parse_log_starts(["a-b.c-3=437"]) == {at: 437}
    assert parse_gaps(["a-b.c-3=10-19"]) == frozenset({(at, Gap(10, 19))})
    assert parse_counts(["a-b.c=12"]) == {"a-b.c": 12}
    assert parse_ids(["AAAAAAAAAAAAAAAAAAAAAQ"]) == frozenset({UUID(int=1)})


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_gaps, "orders-0=5", "--allow-gap: 'orders-0=5' is not TOPIC-PARTITION=FIRST-LAST"),
        (parse_counts, "orders", "--partitions: 'orders' is not TOPIC=COUNT"),
        (parse_ids, "short", "--without-segment: a Kafka Uuid has 22 characters"),
    ],
)
def test_refuses_other_forms(parse: object, text: str, said: str) -> None:
    assert callable(parse)
    with pytest.raises(ConfigurationError, match=said):
        parse([text])


def test_refuses_configs_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"c\.toml is not UTF-8"):
        read_configs(str(tmp_path / "c.toml"))


def test_an_absent_topic_among_all_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    status, _, err = restore(capsys, "--store", (tmp_path / "empty").as_uri(), "--dry-run")
    assert status != 0
    assert "found no segments; the store has no objects there" in err
