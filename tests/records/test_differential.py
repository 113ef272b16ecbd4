"""Batches built by kafka-python and aiokafka read the same here and there: 6,400 batches of every format and codec.

``make properties`` reads 20,000.

Intended differences between the three:

* magic 0: they give None for timestamp and type, this package gives -1 for both, as Java does;
* lz4 in magic 0: aiokafka refuses it, kafka-python and this package read it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import aiokafka.record.default_records
import aiokafka.record.legacy_records
import aiokafka.record.memory_records
import kafka.record.default_records
import kafka.record.legacy_records
import kafka.record.memory_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.records import read_batches
from tests.records.conftest import use
from tests.support.batches import Rec, batch
from tests.support.campaign import examples
from tests.support.decoders import IMPLEMENTATIONS

LIBRARIES = {"aiokafka": aiokafka.record, "kafka-python": kafka.record}
PER_EXAMPLE = 40
EXAMPLES = examples(40, 125)  # times 4 tests times 40 batches: 6,400, and 20,000
Row = tuple[Any, ...]


def some_bytes(noise: random.Random) -> bytes | None:
    kind = noise.random()
    if kind < 0.15:
        return None
    return noise.randbytes(noise.randrange(40)) if kind < 0.8 else b"abc" * noise.randrange(60)


def build(library: Any, magic: int, noise: random.Random) -> tuple[bytes, list[Row]]:
    """Returns a batch by a library's builder, and the records in it."""
    rows: list[Row] = []
    if magic == 2:
        codec = noise.randrange(5)
        builder = library.default_records.DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=noise.random() < 0.2,
            producer_id=noise.choice([-1, 5]),
            producer_epoch=0,
            base_sequence=noise.choice([-1, 2**31 - 1]),
            batch_size=1 << 20,
        )
    else:
        codec = noise.choice([0, 1, 2] if magic == 0 and library is aiokafka.record else [0, 1, 2, 3])
        builder = library.legacy_records.LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for offset in range(noise.randrange(1, 6)):
        timestamp = noise.choice([0, 1_700_000_000_000, 1_700_000_000_000 + noise.randrange(-1000, 1000)])
        key, value = some_bytes(noise), some_bytes(noise)
        if magic == 2:
            headers = [(f"name{noise.randrange(3)}é", some_bytes(noise)) for _ in range(noise.choice([0, 0, 1, 3]))]
            builder.append(offset, timestamp, key, value, headers)
        else:
            headers = []
            builder.append(offset, timestamp=timestamp, key=key, value=value)
        rows.append((offset, timestamp if magic else -1, 0 if magic else -1, key, value, headers))
    return bytes(builder.build()), rows


def ours(data: bytes) -> list[Row]:
    return [(row[0], row[1], row[2], row[4], row[5], row[6]) for row in read_batches(data).rows()]


def theirs(library: Any, data: bytes) -> list[Row]:
    records = library.memory_records.MemoryRecords(data)
    rows = []
    while records.has_next():
        for r in records.next_batch():
            timestamp = -1 if r.timestamp is None else r.timestamp
            kind = -1 if r.timestamp_type is None else r.timestamp_type
            rows.append((r.offset, timestamp, kind, r.key, r.value, list(r.headers or [])))
    return rows


def is_lz4_of_magic_0(data: bytes) -> bool:
    return data[16] == 0 and data[17] & 7 == 3


def each_kernel(check: Callable[[], None]) -> None:
    for implementation in IMPLEMENTATIONS.values():
        with pytest.MonkeyPatch.context() as monkeypatch:
            use(implementation, monkeypatch)
            check()


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize("magics", [[2], [0, 1]], ids=["v2", "old"])
def test_batches_built_by_a_library_read_alike_everywhere(name: str, magics: list[int]) -> None:
    built = 0

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(st.integers(0, 2**64 - 1))
    def check(seed: int) -> None:
        nonlocal built
        noise = random.Random(seed)
        for _ in range(PER_EXAMPLE):
            data, rows = build(LIBRARIES[name], noise.choice(magics), noise)
            built += 1

            def compare(data: bytes = data, rows: list[Row] = rows) -> None:
                assert ours(data) == rows

            each_kernel(compare)
            for reader, library in LIBRARIES.items():
                if not (reader == "aiokafka" and is_lz4_of_magic_0(data)):
                    assert theirs(library, data) == rows

    check()
    assert built >= EXAMPLES * PER_EXAMPLE


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_batches_built_by_our_tests_read_alike_in_the_libraries(seed: int) -> None:
    noise = random.Random(seed)
    for _ in range(10):
        records = [
            Rec(i, some_bytes(noise), some_bytes(noise), [(b"h", some_bytes(noise))] * noise.randrange(2), noise.randrange(99))
            for i in range(noise.randrange(1, 5))
        ]
        data = batch(noise.randrange(2**40), records, codec=noise.randrange(5), attributes=noise.choice([0, 8]))
        expected = ours(data)
        for library in LIBRARIES.values():
            assert theirs(library, data) == expected
