"""The embedded broker's reads of its tier: batches, aborted transactions and times from the written bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafka_remote_client.embedded.log import EmbeddedLog, EmbeddedLogs, RecordTime, end_offset, find_time
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.wire import ZERO_UUID
from tests.support.batches import (
    CODECS,
    Rec,
    abort_marker,
    batch,
    commit_marker,
    compress,
    legacy_message,
    legacy_set,
    record,
    xerial,
)
from tests.support.golden import golden_local, read_jsonl
from tests.support.tier import TIP

_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10


def ten(base: int, **more: int) -> bytes:
    """Ten records with the timestamps 1000 + offset."""
    records = [Rec(n, value=b"v" * 20, timestamp=n) for n in range(10)]
    return batch(base, records, timestamp=1000 + base, max_timestamp=1009 + base, **more)


FIRST = [ten(10 * number) for number in range(5)]
SECOND = [ten(50)]
SIZE = len(FIRST[0])


def write(log: EmbeddedLog, path: Path, *batches: bytes) -> None:
    path.write_bytes(b"".join(batches))
    log.append(path, b"".join(batches))


@pytest.fixture
def log(tmp_path: Path) -> EmbeddedLog:
    made = EmbeddedLog()
    write(made, tmp_path / "first", *FIRST)
    write(made, tmp_path / "second", *SECOND)
    return made


def test_log_is_found_by_topic_name_or_id(tmp_path: Path) -> None:
    logs = EmbeddedLogs()
    assert logs.log(TIP.topic, TIP.topic_id, TIP.partition) is None
    logs.append(TIP, tmp_path / "first", b"".join(FIRST))
    logs.append(TIP, tmp_path / "second", b"".join(SECOND))
    found = logs.log(TIP.topic, ZERO_UUID, TIP.partition)
    assert found is not None
    assert logs.log("", TIP.topic_id, TIP.partition) is found
    assert logs.log(TIP.topic, ZERO_UUID, TIP.partition + 1) is None
    assert logs.log("another", ZERO_UUID, TIP.partition) is None
    assert (found.start, found.end) == (0, 60)


@pytest.mark.parametrize(
    ("offset", "max_bytes", "batches"),
    [
        (0, 1, FIRST[:1]),
        (0, 2 * SIZE, FIRST[:2]),
        (0, 3 * SIZE - 1, FIRST[:2]),
        (25, 1, FIRST[2:3]),
        (25, 1 << 20, FIRST[2:]),
        (49, 1, FIRST[4:]),
        (50, 1 << 20, SECOND),
        (60, 1 << 20, []),
    ],
)
def test_reads_whole_batches_that_fit_and_at_least_one(
    log: EmbeddedLog, offset: int, max_bytes: int, batches: list[bytes]
) -> None:
    assert log.read(offset, max_bytes) == (b"".join(batches), ())


def test_damaged_bytes_are_returned_unchanged(log: EmbeddedLog, tmp_path: Path) -> None:
    damaged = bytearray(b"".join(FIRST))
    damaged[2 * SIZE + 70] ^= 1
    (tmp_path / "first").write_bytes(damaged)
    assert log.read(0, 1 << 20) == (bytes(damaged), ())


def test_a_new_leader_replaces_truncated_records(log: EmbeddedLog, tmp_path: Path) -> None:
    other = [batch(40, [Rec(n, value=b"other") for n in range(3)], epoch=1)]
    write(log, tmp_path / "third", *other)
    assert log.end == 43
    assert log.read(40, 1 << 20)[0] == other[0]
    assert log.read(39, 1 << 20)[0] == FIRST[3]


def test_an_empty_append_changes_nothing(log: EmbeddedLog, tmp_path: Path) -> None:
    log.append(tmp_path / "none", b"")
    assert log.end == 60


@pytest.mark.parametrize("cut", [1, SIZE - 20])
def test_refuses_a_truncated_batch(tmp_path: Path, cut: int) -> None:
    with pytest.raises(ValueError, match="batch at offset 0 ends at byte"):
        EmbeddedLog().append(tmp_path / "cut", FIRST[0][:-cut])


def transaction(base: int, producer: int) -> bytes:
    return batch(base, [Rec(0), Rec(1)], producer=producer, attributes=_TRANSACTIONAL)


def test_aborted_transactions_are_those_with_a_later_abort_marker(tmp_path: Path) -> None:
    log = EmbeddedLog()
    write(
        log,
        tmp_path / "first",
        transaction(0, 7),
        transaction(2, 8),
        transaction(4, 7),
        abort_marker(6, 9),  # of a producer without records
        commit_marker(7, 8),
    )
    write(log, tmp_path / "second", abort_marker(8, 7), batch(9, [Rec(0)]), transaction(10, 7), commit_marker(12, 7))
    assert log.read(0, 1 << 20)[1] == (AbortedTransaction(7, 0),)
    assert log.read(8, 1 << 20)[1] == (AbortedTransaction(7, 0),), "the marker at 8 ends what began before"
    assert log.read(9, 1 << 20)[1] == ()


def test_transactions_that_begin_after_the_batches_are_left_out(tmp_path: Path) -> None:
    log = EmbeddedLog()
    data = [batch(0, [Rec(0)]), transaction(1, 7), abort_marker(3, 7)]
    write(log, tmp_path / "log", *data)
    assert log.read(0, len(data[0])) == (data[0], ())
    assert log.read(0, len(data[0]) + len(data[1]))[1] == (AbortedTransaction(7, 1),)


def test_reads_equal_those_of_a_real_broker() -> None:
    """The golden topic ``txn``: answers of Kafka 4.3.1 to Fetch, at every recorded offset and size.

    A real broker adds the front of one more batch, and lists transactions as far as an entry of the offset index
    reaches, so it may list some that begin after the whole batches.
    """
    log = EmbeddedLog()
    tiered = sorted((golden_local() / "remote").glob("*/txn-0-*/*.log"))
    (local,) = (golden_local() / "local-tail" / "txn-0").glob("*.log")  # with the markers of the last transactions
    for path in tiered:
        log.append(path, path.read_bytes())
    tiered_end = log.end
    log.append(local, local.read_bytes())
    compared = 0
    for answer in read_jsonl(golden_local() / "fetch-txn.jsonl"):
        if answer["fetch_offset"] < tiered_end and answer["isolation"]:
            data, aborted = log.read(answer["fetch_offset"], answer["max_bytes"])
            assert len(data) == answer["records_bytes"] - answer["partial_tail_bytes"], answer
            broker = [AbortedTransaction(*one) for one in answer["aborted"] if one[1] < end_offset(data)]
            assert sorted(aborted, key=repr) == sorted(broker, key=repr), answer
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("codec", CODECS)
def test_finds_the_first_record_at_or_after_a_timestamp(log: EmbeddedLog, tmp_path: Path, codec: str) -> None:
    records = [Rec(n, value=b"v" * 200, timestamp=n) for n in range(10)]
    write(log, tmp_path / "third", batch(60, records, codec=CODECS[codec], timestamp=1060, max_timestamp=1069, epoch=4))
    assert log.find_time(1033) == RecordTime(33, 1033, 0)
    assert log.find_time(0) == RecordTime(0, 1000, 0)
    assert log.find_time(1065) == RecordTime(65, 1065, 4)
    assert log.find_time(1070) is None


def test_reads_snappy_in_java_framing() -> None:
    records = b"".join(record(Rec(n, value=b"v" * 50_000, timestamp=n)) for n in range(3))
    data = batch(5, records, codec=2, payload=xerial(records), last_delta=2, timestamp=10, max_timestamp=12)
    assert find_time(data, 11) == RecordTime(6, 11, 0)


def test_log_append_time_is_the_time_of_all_records() -> None:
    data = batch(5, [Rec(0), Rec(1, timestamp=9)], attributes=_LOG_APPEND_TIME, timestamp=10, max_timestamp=99)
    assert find_time(data, 20) == RecordTime(5, 99, 0)


def test_a_marker_counts_as_a_record_of_its_time() -> None:
    assert find_time(abort_marker(3, 7, timestamp=50, max_timestamp=50), 40) == RecordTime(3, 50, 0)


def test_a_batch_whose_maximum_no_record_reaches_is_skipped() -> None:
    data = batch(0, [Rec(0)], timestamp=10, max_timestamp=99) + batch(1, [Rec(0)], timestamp=70, max_timestamp=70)
    assert find_time(data, 60) == RecordTime(1, 70, 0)


def test_old_formats_have_timestamps_from_magic_1_on() -> None:
    inner = b"".join(legacy_message(n, b"v", timestamp=100 + n) for n in range(3))
    data = (
        legacy_message(0, b"v", magic=0)
        + legacy_message(1, b"v", timestamp=90)
        + legacy_set(4, inner, codec=1, timestamp=102)
        + legacy_message(5, b"v", key=b"k", timestamp=200)
        + legacy_message(8, compress(1, inner), key=b"key", attributes=1 | _LOG_APPEND_TIME, timestamp=300)
    )
    assert end_offset(data) == 9
    assert find_time(data, 0) == RecordTime(1, 90, -1)
    assert find_time(data, 101) == RecordTime(3, 101, -1)
    assert find_time(data, 150) == RecordTime(5, 200, -1)
    assert find_time(data, 201) == RecordTime(6, 300, -1)


def test_a_new_log_has_no_time_and_no_end() -> None:
    assert EmbeddedLog().find_time(0) is None
    assert EmbeddedLog().read(0, 100) == (b"", ())
    with pytest.raises(IndexError):
        _ = EmbeddedLog().end


def test_a_file_whose_maximum_no_record_reaches_is_skipped(tmp_path: Path) -> None:
    log = EmbeddedLog()
    write(log, tmp_path / "log", batch(0, [Rec(0)], timestamp=10, max_timestamp=99))
    assert log.find_time(60) is None


def test_the_control_flag_is_ignored_in_old_formats(tmp_path: Path) -> None:
    """Bit 5 of the attributes is unused below magic 2."""
    log = EmbeddedLog()
    write(log, tmp_path / "old", legacy_message(0, b"v" + struct.pack(">h", 0), attributes=0x30))
    assert log.read(0, 1)[1] == ()
