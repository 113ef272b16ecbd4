"""The answers of a Spark master."""

from __future__ import annotations

import pytest

from tests.support.spark_standalone import alive_workers


@pytest.mark.parametrize(
    ("answer", "workers"),
    [
        (b'{"url": "spark://127.0.0.1:7077", "aliveworkers": 2}', 2),
        (b'<!DOCTYPE html><html>\n      <head>\n        <meta http-equiv="Content-type"', 0),
        (b"", 0),
    ],
)
def test_a_master_knows_no_workers_before_it_answers_in_json(answer: bytes, workers: int) -> None:
    assert alive_workers(answer) == workers
