from collections.abc import Sequence

from kafka_remote_client.records import BatchHeader
from kafka_remote_client.remote_log.time_index import TimeIndex
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.time_index import TimeIndexCheck
from tests.support.tier import time_entries

NOTHING = memoryview(b"")
TIMES = (1000, 3000, 2000, 4000)


def check(entries: Sequence[tuple[int, int]], lost: int | None = None) -> TimeIndexCheck:
    """Checks an index against batches of ten offsets from 100 on, with TIMES as their highest timestamps."""
    made = TimeIndexCheck(TimeIndex(time_entries(*entries), 100))
    for number, time in enumerate(TIMES):
        base = 100 + 10 * number
        if number == lost:
            made.lost(50 * number, 50 * number + 50, base, base + 9)
        else:
            made.batch(BatchHeader(50 * number, 50, base, base + 9, 2, 0, 0, time, time, -1, 10), NOTHING)
    return made


def words(entries: Sequence[tuple[int, int]], lost: int | None = None) -> list[str]:
    problems = check(entries, lost).problems()
    assert all(problem.kind is FindingKind.TIME_INDEX_MISMATCH for problem in problems)
    return [problem.message for problem in problems]


def test_entries_for_batches_that_raise_the_maximum_are_valid() -> None:
    assert words([(1000, 9), (3000, 19), (4000, 39)]) == []
    assert words([(4000, 30)]) == []


def test_a_timestamp_other_than_the_batchs_is_reported() -> None:
    assert words([(3001, 19), (4000, 39)]) == ["timestamp 3001 at offset 119: the highest timestamp of that batch is 3000"]


def test_an_entry_below_an_earlier_timestamp_is_reported() -> None:
    assert words([(2000, 29), (4000, 39)]) == ["timestamp 2000 at offset 129: a batch before has the timestamp 3000"]


def test_the_last_entry_must_have_the_highest_timestamp() -> None:
    assert words([(3000, 19)]) == ["its last entry has the timestamp 3000, the highest of all batches is 4000"]
    assert words([]) == ["its last entry has the timestamp -1, the highest of all batches is 4000"]


def test_an_entry_after_the_end_of_the_log_is_reported() -> None:
    made = check([(4000, 39), (5000, 60)])
    assert made.ends_before_index
    assert made.highest == 4000
    assert [problem.message for problem in made.problems()] == ["timestamp 5000 at offset 160: the log ends before it"]


def test_entries_for_lost_batches_are_not_checked() -> None:
    assert words([(1000, 9), (3000, 19), (9000, 39)], lost=3) == []
    assert words([(1000, 9), (2500, 15)], lost=1) == []
    assert words([(1000, 9)], lost=3) == []


def test_an_offset_between_batches_is_reported() -> None:
    made = TimeIndexCheck(TimeIndex(time_entries((1000, 5), (2000, 12)), 100))
    made.batch(BatchHeader(0, 50, 100, 105, 2, 0, 0, 1000, 1000, -1, 6), NOTHING)
    made.batch(BatchHeader(50, 50, 120, 129, 2, 0, 0, 2000, 2000, -1, 10), NOTHING)
    assert ["no batch holds that offset" in problem.message for problem in made.problems()] == [True]
    late = TimeIndexCheck(TimeIndex(time_entries((1000, 5), (2000, 12)), 100))
    late.batch(BatchHeader(0, 50, 100, 105, 2, 0, 0, 1000, 1000, -1, 6), NOTHING)
    late.lost(50, 100, 115, 129)
    assert ["no batch holds that offset" in problem.message for problem in late.problems()] == [True]
