"""Paths of an export's files: names follow from the split, and staged files are hidden."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.scanning.export.paths import JobPaths, file_name, stem


def test_a_visible_name_follows_from_split_and_part() -> None:
    assert file_name("orders-0-0-100", 3) == "orders-0-0-100-00003.parquet"
    assert file_name("orders-0-0-100", 3, "day=2026-01-31/") == "day=2026-01-31/orders-0-0-100-00003.parquet"


def test_names_of_the_longest_topic_fit_a_file_system() -> None:
    numbers = f"{2**31 - 1}-{2**63 - 1}-{2**63 - 1}"
    split_id, other = f"{'t' * 249}-{numbers}", f"{'t' * 248}u-{numbers}"
    paths, attempt = JobPaths("january"), "a" * 32
    names = [f"{paths.split(split_id)}.{attempt}", paths.staged(split_id, 99_999, attempt), file_name("_" + split_id, 99_999)]
    assert max(len(name.rpartition("/")[2]) for name in names) <= 255
    assert stem(split_id) != stem(other)
    assert stem("t" * 180) == "t" * 180


def test_staged_files_are_hidden_and_have_their_own_suffix() -> None:
    paths = JobPaths("january")
    staged = paths.staged("orders-0-0-100", 3, "abc")
    assert staged == "_staging/january/files/orders-0-0-100-00003-abc"
    hidden = [paths.job, paths.commit, paths.split("orders-0-0-100"), paths.done_job, paths.done_files, staged]
    assert all(path.startswith("_") and not path.endswith(".parquet") for path in hidden)
    assert len(set(hidden)) == len(hidden)


@pytest.mark.parametrize("job", ["", "a/b", "..", "_a", "ä", "a" * 101, None, 3])
def test_a_job_name_that_is_not_a_path_segment_is_refused(job: str) -> None:
    with pytest.raises(ConfigurationError, match="the job name "):
        JobPaths(job)


@pytest.mark.parametrize("topic", ["_orders", ".orders"])
def test_readers_find_topics_with_a_leading_dot_or_underscore(tmp_path: Path, topic: str) -> None:
    pq.write_table(pa.table({"offset": [5]}), tmp_path / file_name(f"{topic}-0-0-100", 0))
    assert ds.dataset(tmp_path, format="parquet").to_table().to_pydict() == {"offset": [5]}
