import struct
from collections.abc import Sequence

import attrs
import crc32c
import pytest

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.records import BatchHeader
from kafka_remote_client.verify import log_walk
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.log_walk import MAX_PROBLEMS, LogEnd, LogWalk
from kafka_remote_client.verify.stored_segment import DamagedPieceError, PlainLog
from tests.support.batches import Rec, batch, legacy_message
from tests.support.tier import MemoryStore

KINDS_OF_BATCH = {
    FindingKind.BATCH_DAMAGED,
    FindingKind.BATCH_UNSUPPORTED,
    FindingKind.BATCH_CHAIN,
    FindingKind.BATCH_OUTSIDE_SEGMENT,
}


@attrs.define
class Heard:
    """A BatchListener that records its calls."""

    batches: list[BatchHeader] = attrs.field(factory=list)
    losses: list[tuple[int, int, int, int]] = attrs.field(factory=list)

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        assert len(data) == header.size
        self.batches.append(header)

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        self.losses.append((start, end, first_offset, last_offset))


def log_of(count: int, records: int = 2, codec: int = 0) -> list[bytes]:
    """Returns batches of ``records`` records each, from offset 100 on."""
    return [
        batch(100 + number * records, [Rec(offset=at, value=b"v" * 40) for at in range(records)], codec=codec)
        for number in range(count)
    ]


def damaged(batches: Sequence[bytes], *numbers: int, byte: int = 70, flip: int = 1) -> bytes:
    """Returns the log with flipped bits in one byte of each of these batches, by default in its records."""
    at, data = positions(batches), bytearray(b"".join(batches))
    for number in numbers:
        data[at[number] + byte] ^= flip
    return bytes(data)


def positions(batches: Sequence[bytes]) -> list[int]:
    return [sum(map(len, batches[:number])) for number in range(len(batches))]


def walk(data: bytes, *, piece: int = 1 << 20, end: int = MAX_OFFSET - 1, **more: object) -> tuple[LogWalk, LogEnd, Heard]:
    store = MemoryStore()
    store.objects["log"] = data
    heard = Heard()
    walked = LogWalk(PlainLog(store, "log", len(data), piece), 100, end, **more)
    return walked, walked.run([heard]), heard


@pytest.mark.parametrize("piece", [1, 7, 61, 100, 1000, 1 << 20])
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_batch_is_reported_once_for_any_piece_size(piece: int, codec: int) -> None:
    batches = log_of(9, codec=codec)
    walked, end, heard = walk(b"".join(batches), piece=piece)
    assert (walked.problems, heard.losses) == ([], [])
    assert [header.position for header in heard.batches] == positions(batches)
    assert end == LogEnd(whole=True, next_offset=118, batches=9)


def test_memory_holds_a_piece_and_a_batch_but_not_the_log() -> None:
    batches = log_of(200)
    store = MemoryStore()
    store.objects["log"] = b"".join(batches)
    walked = LogWalk(PlainLog(store, "log", len(store.objects["log"]), 500), 100)
    largest = 0

    class Watch(Heard):
        def batch(self, header: BatchHeader, data: memoryview) -> None:
            nonlocal largest
            largest = max(largest, len(walked._buffer))

    walked.run([Watch()])
    assert largest <= 500 + max(map(len, batches))


def test_an_empty_log_is_whole() -> None:
    _, end, heard = walk(b"")
    assert end == LogEnd(whole=True, next_offset=100, batches=0)
    assert heard == Heard()


@pytest.mark.parametrize("number", [0, 4, 8])
def test_each_flipped_header_bit_is_one_problem_or_another_epoch(number: int) -> None:
    batches = log_of(9)
    data, at = b"".join(batches), positions(batches)
    for bit in range(61 * 8):
        damaged = bytearray(data)
        damaged[at[number] + bit // 8] ^= 1 << bit % 8
        walked, end, heard = walk(bytes(damaged), end=117, resync=at[1:])
        if 12 <= bit // 8 < 16:  # the leader epoch, which another check covers
            assert end.whole
            continue
        assert len(walked.problems) == 1, (bit, walked.problems)
        assert walked.problems[0].kind in KINDS_OF_BATCH, (bit, walked.problems)
        assert walked.problems[0].position == at[number]
        assert [header.position for header in heard.batches] == [*at[:number], *at[number + 1 :]], bit
        assert not end.whole


@pytest.mark.parametrize("resync", [True, False], ids=["index", "no index"])
def test_each_flipped_body_byte_is_one_problem(resync: bool) -> None:
    batches = log_of(5)
    data, at = b"".join(batches), positions(batches)
    for place in range(at[2] + 61, at[3]):
        damaged = bytearray(data)
        damaged[place] ^= 0x55
        walked, _, heard = walk(bytes(damaged), resync=at[1:] if resync else ())
        told = [(problem.kind, problem.position, problem.offset, problem.size) for problem in walked.problems]
        assert told == [(FindingKind.BATCH_DAMAGED, at[2], 104, len(batches[2]))]
        assert heard.losses == [(at[2], at[3], 104, 105)]
        assert len(heard.batches) == 4


def test_every_truncation_is_reported() -> None:
    batches = log_of(3)
    data, at = b"".join(batches), positions(batches)
    for length in range(1, len(data)):
        walked, end, _ = walk(data[:length])
        if length in at:
            assert end.whole
            assert end.batches == at.index(length)
        else:
            assert [problem.kind for problem in walked.problems] == [FindingKind.LOG_CUT]
            assert walked.problems[0].size == length - max(begin for begin in at if begin < length)


def test_without_an_index_a_wrong_size_loses_the_rest_of_the_log() -> None:
    batches = log_of(5)
    at = positions(batches)
    data = damaged(batches, 2, byte=11, flip=0x20)
    walked, end, heard = walk(data)
    assert [problem.kind for problem in walked.problems] == [FindingKind.BATCH_DAMAGED]
    assert heard.losses == [(at[2], len(data), 104, MAX_OFFSET)]
    assert (end.next_offset, end.batches) == (104, 2)


def test_a_negative_size_field_gives_a_problem_without_a_size() -> None:
    batches = log_of(5)
    at = positions(batches)
    data = damaged(batches, 2, byte=8, flip=0x80)
    walked, _, heard = walk(data)
    assert [(problem.kind, problem.size) for problem in walked.problems] == [(FindingKind.BATCH_DAMAGED, None)]
    assert heard.losses == [(at[2], len(data), 104, MAX_OFFSET)]


def test_adjacent_damaged_batches_are_one_problem() -> None:
    batches = log_of(9)
    at = positions(batches)
    assert len(walk(damaged(batches, 2, 3), resync=at)[0].problems) == 1
    assert len(walk(damaged(batches, 2, 4), resync=at)[0].problems) == 2


def test_a_fully_damaged_log_is_given_up() -> None:
    count = 2 * MAX_PROBLEMS + 20
    batches = log_of(count)
    at = positions(batches)
    data = damaged(batches, *range(0, count, 2))
    walked, end, heard = walk(data, resync=at)
    assert len(walked.problems) == MAX_PROBLEMS
    assert heard.losses[-1][1:] == (len(data), end.next_offset, MAX_OFFSET)


def test_a_batch_above_the_bound_is_skipped_and_the_next_is_checked() -> None:
    small, large = log_of(1)[0], batch(102, [Rec(value=bytes(5000))])
    last = batch(103)
    data = small + large + last
    at = [len(small), len(small) + len(large)]
    walked, _, heard = walk(data, piece=300, resync=at, max_batch_bytes=1000)
    assert [problem.kind for problem in walked.problems] == [FindingKind.BATCH_UNSUPPORTED]
    assert [header.base_offset for header in heard.batches] == [100, 103]


def test_unparsable_records_are_damage_despite_a_valid_checksum() -> None:
    batches = log_of(3)
    bad = bytearray(batches[1])
    bad[61] ^= 1
    bad[17:21] = crc32c.crc32c(bytes(bad[21:])).to_bytes(4, "big")
    walked, _, heard = walk(batches[0] + bytes(bad) + batches[2])
    assert [problem.kind for problem in walked.problems] == [FindingKind.BATCH_DAMAGED]
    assert len(heard.batches) == 2


def test_damage_after_a_full_block_is_reported_at_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_walk, "DEFAULT_MAX_DECOMPRESSED_BYTES", 1)
    batches = [*log_of(3), batch(106, b"", count=1, payload=b"\x02\x00")]
    walked, _, heard = walk(b"".join(batches))
    assert [problem.position for problem in walked.problems] == [positions(batches)[3]]
    assert len(heard.batches) == 3


def test_a_log_after_its_segments_start_is_out_of_chain_without_gaps() -> None:
    data = b"".join(log_of(3)[1:])
    assert [problem.kind for problem in walk(data)[0].problems] == [FindingKind.BATCH_CHAIN]
    assert walk(data, allow_offset_gaps=True)[1].whole


def test_a_repeated_batch_of_one_record_is_out_of_chain() -> None:
    (data,) = log_of(1, records=1)
    (problem,) = walk(data * 2, end=100)[0].problems
    assert (problem.kind, problem.position) == (FindingKind.BATCH_CHAIN, len(data))


def test_messages_of_old_formats_are_walked() -> None:
    data = b"".join(legacy_message(offset, b"v", magic=magic) for offset, magic in ((100, 0), (101, 1), (102, 1)))
    _, end, heard = walk(data)
    assert end == LogEnd(whole=True, next_offset=103, batches=3)
    assert {header.magic for header in heard.batches} == {0, 1}


@attrs.frozen
class Pieces:
    """Three pieces, the second of which cannot be restored."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, position: int) -> bytes:
        third = len(self.data) // 3
        if third <= position < 2 * third:
            raise DamagedPieceError("no", 2 * third)
        return self.data[position : third if position < third else len(self.data)]


def test_damage_right_after_a_damaged_piece_is_the_same_problem() -> None:
    batches = log_of(9)
    at, data = positions(batches), bytearray(b"".join(batches))
    data[at[6] + 70] ^= 1
    heard = Heard()
    walked = LogWalk(Pieces(bytes(data)), 100, resync=at)
    walked.run([heard])
    assert [problem.kind for problem in walked.problems] == [FindingKind.CHUNK_DAMAGED]
    assert [header.base_offset for header in heard.batches] == [100, 102, 104, 114, 116]


def test_a_damaged_piece_is_reported_and_the_walk_continues() -> None:
    batches = log_of(9)
    at, data = positions(batches), b"".join(batches)
    heard = Heard()
    walked = LogWalk(Pieces(data), 100, resync=at)
    end = walked.run([heard])
    assert [(problem.kind, problem.message) for problem in walked.problems] == [(FindingKind.CHUNK_DAMAGED, "no")]
    assert [header.base_offset for header in heard.batches] == [100, 102, 104, 112, 114, 116]
    assert (end.whole, end.next_offset) == (False, 118)
    blind = LogWalk(Pieces(data), 100)
    assert blind.run([Heard()]).next_offset == 106


def test_a_size_field_past_the_last_byte_is_damage_not_a_cut() -> None:
    batches = log_of(2)
    data = bytearray(b"".join(batches))
    at = len(batches[0])
    struct.pack_into(">i", data, at + 8, len(batches[1]))  # twelve too many
    walked, _, _ = walk(bytes(data))
    assert [problem.kind for problem in walked.problems] == [FindingKind.BATCH_DAMAGED]


@attrs.define
class CountedLog:
    """Counts the bytes that are read, and fails for a read past its end."""

    data: bytes
    nbytes: int = 0

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, position: int) -> bytes:
        assert position < len(self.data)
        piece = self.data[position : position + 100]
        self.nbytes += len(piece)
        return piece


def test_a_truncated_log_is_not_read_past_its_end() -> None:
    log = CountedLog(b"".join(log_of(3))[:-5])
    walked = LogWalk(log, 100)
    walked.run()
    assert [problem.kind for problem in walked.problems] == [FindingKind.LOG_CUT]
    assert log.nbytes == log.size


def test_the_rest_is_read_once_if_the_index_reveals_a_wrong_size() -> None:
    batches = log_of(40)
    at, data = positions(batches), bytearray(b"".join(batches))
    struct.pack_into(">i", data, at[1] + 8, len(data))
    log = CountedLog(bytes(data))
    walked = LogWalk(log, 100, resync=at)
    assert walked.run().batches == 39
    assert [problem.kind for problem in walked.problems] == [FindingKind.BATCH_DAMAGED]
    assert log.nbytes < log.size + 2 * 100 + len(batches[0])
