"""Both decoders give equal records and error texts for generated batches, valid and damaged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records.record import read_headers
from tests.records.conftest import use
from tests.support.batches import Rec, batch, control_batch, fix_crc, legacy_message, legacy_set, varint
from tests.support.decoders import IMPLEMENTATIONS, outcome

needs_kernel = pytest.mark.skipif("compiled" not in IMPLEMENTATIONS, reason="the kernel is not built")
pytestmark = needs_kernel

small_bytes = st.none() | st.binary(max_size=30)
header_lists = st.lists(st.tuples(st.binary(max_size=8), small_bytes), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Rec]:
    records, offset = [], draw(st.integers(0, 3))
    for _ in range(draw(st.integers(0, 6))):
        timestamp = draw(st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100))
        records.append(Rec(offset, draw(small_bytes), draw(small_bytes), draw(header_lists), timestamp))
        offset += draw(st.integers(1, 3) | st.just(1))
    return records


@st.composite
def one_batch(draw: st.DrawFn, base: int) -> tuple[bytes, int]:
    """Returns a batch and the offset after it."""
    kind = draw(st.sampled_from(["v2", "v2", "v2", "v2", "control", "old", "old set"]))
    if kind == "control":
        return control_batch(base, draw(st.integers(-1, 3)), draw(st.integers(-1, 3)), codec=draw(st.integers(0, 4))), base + 1
    if kind == "old":
        magic = draw(st.integers(0, 1))
        return legacy_message(
            base, draw(small_bytes), magic=magic, key=draw(small_bytes), timestamp=draw(st.integers(0, 99))
        ), base + 1
    if kind == "old set":
        count = draw(st.integers(1, 4))
        inner = b"".join(legacy_message(i, draw(small_bytes), timestamp=draw(st.integers(-5, 2**63 - 1))) for i in range(count))
        return legacy_set(
            base + count - 1, inner, codec=draw(st.integers(1, 3)), attributes=draw(st.sampled_from([0, 8]))
        ), base + count
    records = draw(record_lists())
    last = (records[-1].offset if records else 0) + draw(st.integers(0, 2))
    data = batch(
        base,
        records,
        codec=draw(st.integers(0, 4)),
        attributes=draw(st.sampled_from([0, 0x08, 0x10, 0x50])),
        producer=draw(st.integers(-1, 3)),
        timestamp=draw(st.integers(-1, 2**63 - 1)),
        last_delta=last,
        count=None,
    )
    return data, base + last + 1


@st.composite
def segments(draw: st.DrawFn) -> bytes:
    data, offset = b"", draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 5))):
        part, offset = draw(one_batch(offset))
        data += part
        offset += draw(st.sampled_from([0, 0, 0, 1]))
    return data


OPTIONS = st.fixed_dictionaries(
    {
        "fetch_offset": st.integers(0, 12),
        "fetch": st.fixed_dictionaries(
            {
                "allow_offset_gaps": st.booleans(),
                "at_segment_start": st.booleans(),
                "end_offset": st.none() | st.integers(0, 20),
                "max_decompressed_bytes": st.sampled_from([2**20, 2**20, 2**20, 100]),
            }
        ),
    }
)
ABORTED = st.lists(st.builds(AbortedTransaction, st.integers(0, 3), st.integers(0, 15)), max_size=4)
SETTINGS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def same_for_both(data: bytes, level: IsolationLevel, aborted: list[AbortedTransaction], options: dict[str, Any]) -> None:
    found = {}
    for name, implementation in IMPLEMENTATIONS.items():
        with pytest.MonkeyPatch.context() as monkeypatch:
            use(implementation, monkeypatch)
            found[name] = outcome(data, level, aborted, options["fetch_offset"], **options["fetch"])
    assert found["compiled"] == found["pure"]


@given(segments(), st.sampled_from(IsolationLevel), ABORTED, OPTIONS)
@SETTINGS
def test_valid_segments_read_alike(
    data: bytes, level: IsolationLevel, aborted: list[AbortedTransaction], options: dict[str, Any]
) -> None:
    same_for_both(data, level, aborted, options)


@given(segments(), st.data(), st.sampled_from(IsolationLevel), ABORTED, OPTIONS)
@SETTINGS
def test_damaged_segments_read_alike(
    data: bytes, draw: st.DataObject, level: IsolationLevel, aborted: list[AbortedTransaction], options: dict[str, Any]
) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = draw.draw(st.integers(0, 255))
    same_for_both(bytes(damaged[: draw.draw(st.integers(0, len(damaged)))]), level, aborted, options)


@given(st.binary(max_size=80), st.integers(-1, 5), st.integers(0, 7), st.integers(-1, 8), OPTIONS)
@SETTINGS
def test_any_records_with_a_valid_checksum_read_alike(
    raw: bytes, count: int, codec: int, last_delta: int, options: dict[str, Any]
) -> None:
    for attributes in (0, codec):
        data = batch(0, b"", count=count, attributes=attributes, last_delta=last_delta, payload=raw)
        same_for_both(data, IsolationLevel(1), [], options)
    if 0 < codec < 5:
        same_for_both(batch(0, raw, count=count, codec=codec, last_delta=last_delta), IsolationLevel(0), [], options)


@given(segments(), st.data(), OPTIONS)
@SETTINGS
def test_damaged_records_with_a_valid_checksum_read_alike(data: bytes, draw: st.DataObject, options: dict[str, Any]) -> None:
    size = 12 + int.from_bytes(data[8:12], "big")
    first = bytearray(data[:size])
    if first[16] == 2:
        for _ in range(draw.draw(st.integers(1, 3))):
            at = draw.draw(st.integers(21, len(first) - 1))
            first[at] = draw.draw(st.integers(0, 255))
        first = bytearray(fix_crc(bytes(first)))
    same_for_both(bytes(first) + data[size:], IsolationLevel(1), [AbortedTransaction(1, 0)], options)


@given(st.lists(st.tuples(st.text(max_size=10), small_bytes), max_size=5))
def test_headers_round_trip(headers: list[tuple[str, bytes | None]]) -> None:
    raw = b"".join(
        varint(len(name.encode("utf-8", "surrogatepass")))
        + name.encode("utf-8", "surrogatepass")
        + (varint(-1) if value is None else varint(len(value)) + value)
        for name, value in headers
    )
    found = read_headers(raw, 0, len(headers))
    assert [value for _, value in found] == [value for _, value in headers]
    assert [name for name, _ in found] == [
        name.encode("utf-8", "surrogatepass").decode("utf-8", "replace") for name, _ in headers
    ]
