from collections.abc import Sequence

from kafka_remote_client.records import BatchHeader
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.offset_index import OffsetIndexCheck
from tests.support.tier import offset_entries

NOTHING = memoryview(b"")


def header(number: int) -> BatchHeader:
    """Returns batch ``number``: offsets 100 + 10·number to 109 + 10·number, at position 50·number."""
    base = 100 + 10 * number
    return BatchHeader(50 * number, 50, base, base + 9, 2, 0, 0, 1000, 1000, -1, 10)


def check(entries: Sequence[tuple[int, int]], batches: Sequence[int | None] = range(6)) -> OffsetIndexCheck:
    """Checks an index of entries against batches; ``None`` stands for a lost batch."""
    made = OffsetIndexCheck(OffsetIndex(offset_entries(*entries), 100))
    for place, number in enumerate(batches):
        if number is None:
            made.lost(50 * place, 50 * place + 50, 100 + 10 * place, 109 + 10 * place)
        else:
            made.batch(header(number), NOTHING)
    return made


def words(entries: Sequence[tuple[int, int]], batches: Sequence[int | None] = range(6)) -> list[str]:
    problems = check(entries, batches).problems()
    assert all(problem.kind is FindingKind.OFFSET_INDEX_MISMATCH for problem in problems)
    return [problem.message for problem in problems]


def test_entries_for_all_or_some_batches_are_valid() -> None:
    assert words([]) == []
    assert words([(19, 50), (29, 100), (59, 250)]) == []


def test_an_entry_of_several_batches_has_the_offset_of_the_last() -> None:
    assert words([(39, 50), (59, 200)]) == []


def test_a_position_where_no_batch_begins_is_reported() -> None:
    assert words([(19, 51)]) == ["offset 119 at position 51: no batch begins there"]


def test_an_offset_that_ends_no_batch_is_reported() -> None:
    assert words([(18, 50)]) == ["offset 118 at position 50: no batch at or after that position ends with that offset"]
    assert words([(29, 50), (39, 100)]) == ["offset 129 at position 50: no batch before the next entry ends with that offset"]
    assert words([(90, 250)]) == ["offset 190 at position 250: no batch at or after that position ends with that offset"]


def test_an_entry_after_the_end_of_the_log_is_reported() -> None:
    made = check([(19, 50), (90, 300)])
    assert made.ends_before_index
    assert [problem.message for problem in made.problems()] == ["offset 190 at position 300: the log ends before it"]


def test_several_wrong_entries_are_one_problem() -> None:
    assert words([(18, 50), (28, 100), (39, 150)]) == [
        "2 of 3 entries; the first: offset 118 at position 50: no batch at or after that position ends with that offset"
    ]


def test_entries_for_lost_batches_are_not_checked() -> None:
    assert words([(19, 50), (25, 101), (39, 150)], [0, 1, None, 3, 4, 5]) == []
    assert words([(29, 50), (49, 200)], [0, 1, None, 3, 4, 5]) == []
    assert words([(19, 60), (39, 150)], [0, 1, None, 3]) == ["offset 119 at position 60: no batch begins there"]
