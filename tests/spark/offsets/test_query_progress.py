from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_remote_client import spark
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.query_progress import OffsetsBehind, offsets_behind

END, LATEST = '{"a":{"0":5,"1":9}}', '{"a":{"0":15,"1":8,"2":4}}'
BEHIND = OffsetsBehind({TopicPartition("a", 0): 10, TopicPartition("a", 1): 0, TopicPartition("a", 2): 4})


@pytest.mark.parametrize(
    "progress",
    [
        SimpleNamespace(sources=[SimpleNamespace(endOffset=END, latestOffset=LATEST)]),
        {"sources": [{"endOffset": END, "latestOffset": LATEST}]},
        {"sources": [{"endOffset": {"a": {"0": 5, "1": 9}}, "latestOffset": {"a": {"0": 15, "1": 8, "2": 4}}}]},
    ],
)
def test_counts_offsets_to_the_end_of_the_log(progress: Any) -> None:
    assert offsets_behind(progress) == BEHIND


def test_shows_what_spark_s_own_source_reports() -> None:
    assert (BEHIND.total, BEHIND.highest, BEHIND.lowest) == (14, 10, 0)
    assert BEHIND.average == pytest.approx(14 / 3)
    assert (OffsetsBehind({}).highest, OffsetsBehind({}).lowest, OffsetsBehind({}).average) == (0, 0, 0.0)


def test_several_sources_are_added_up_and_others_skipped() -> None:
    other = {"endOffset": END, "latestOffset": "null"}
    second = {"endOffset": '{"b":{"0":1}}', "latestOffset": '{"b":{"0":3}}'}
    found = offsets_behind({"sources": [other, {"endOffset": "[1]", "latestOffset": '{"x":1}'}, second]})
    assert found == OffsetsBehind({TopicPartition("b", 0): 2})


@pytest.mark.parametrize("progress", [None, {}, {"sources": []}, {"sources": [{"endOffset": END, "latestOffset": None}]}])
def test_nothing_is_returned_if_progress_has_no_offsets(progress: Any) -> None:
    assert offsets_behind(progress) is None


def test_the_function_is_public() -> None:
    assert spark.offsets_behind is offsets_behind
