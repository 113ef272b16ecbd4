"""Batches written by Kafka's own builder, magic 0 to 2 with each codec, read as Kafka's own reader read them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.records import read_batches
from tests.support.golden import read_jsonl

pytestmark = pytest.mark.usefixtures("kernel")

VECTORS = list(read_jsonl(Path(__file__).resolve().parents[1] / "golden" / "record-vectors.jsonl.gz"))


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def test_the_vectors_include_every_magic_and_codec() -> None:
    assert {(v["magic"], v["codec"]) for v in VECTORS} == {
        *((magic, codec) for magic in (0, 1, 2) for codec in ("none", "gzip", "snappy", "lz4")),
        (2, "zstd"),
    }


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['magic']}-{v['codec']}-{len(v['records'])}")
def test_reads_as_kafka_reads(vector: dict[str, Any]) -> None:
    rows = [
        [row[0], row[1], row[2], text(row[4]), text(row[5]), [[name, text(value)] for name, value in row[6]]]
        for row in read_batches(base64.b64decode(vector["batches"])).rows()
    ]
    assert rows == vector["records"]
