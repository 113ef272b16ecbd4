from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.errors import DirectFetchError, ObjectNotFoundError
from kafka_remote_client.model import EpochEntry, IsolationLevel, NotRemote, uuid_from_text
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.prefetch import STORE_READ_THREADS, store_read_executor
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.remote_log.tier_listing import TierListing
from tests.support.aiven import AivenWriter, key_ring
from tests.support.golden import AIVEN_MODES, golden_aiven
from tests.support.golden_metadata import golden_metadata, golden_store, live_partitions
from tests.support.questions import tier_question
from tests.support.round_store import RoundStore
from tests.support.tier import LAYOUT, TIP, Tier, batch, legacy_entry

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
SIZE = len(batch(0, 10))
CHECKPOINT, TRANSACTIONS = ".leader_epoch_checkpoint", (".snapshot", ".txnindex")
_KEY = re.compile(r".*/0*(\d+)-[^.]*(\..*)")


def short(key: str) -> str:
    """Returns ``0.index`` for the offset index of the segment that begins at offset 0."""
    return _KEY.sub(r"\1\2", key)


class Lookups:
    """Look-ups in a tier of segments of 50 offsets, batches of 10, each batch but the first with an index entry."""

    def __init__(self, segments=1, *, legacy=False, name=short, **changes) -> None:
        self.tier = Tier()
        self.segments = [self.add(number, legacy=legacy, **changes) for number in range(segments)]
        self.store = RoundStore(self.tier.store, name=name)
        self.layout = LAYOUT

    def add(self, at, *, legacy=False, **changes):
        base = at * 50
        batches = (
            [b"".join(legacy_entry(base + 10 * n + m, 1) for m in range(10)) for n in range(5)]
            if legacy
            else [batch(base + n * 10, 10) for n in range(5)]
        )
        given = {"number": at + 1, "indexed": [1, 2, 3, 4], **changes}
        return self.tier.add(batches, **given)

    def aiven(self, chunk_size=10_000):
        """The same tier in the layout of Aiven's plugin."""
        writer = AivenWriter("p/", chunk_size, compressed=True, encrypted=True)
        for segment in self.segments:
            self.tier.store.objects |= writer.objects(self.tier.store, segment)
        self.layout = AivenLayout("p/", key_ring())
        return self

    def rounds(self, sizes, *questions, **changes):
        """Returns the requests of consecutive look-ups, in rounds of these sizes."""
        self.store.expect(sizes)
        with ThreadPoolExecutor(64) as executor:
            self.resolver = RemoteSegmentResolver(self.store, self.layout, executor=executor)
            self.found = [self.ask(offset, **changes) for offset in questions]
        return self.store.rounds

    def ask(self, offset, *, isolation=COMMITTED, leader_epochs=None, resolver=None, **changes):
        asked = tier_question(TIP, offset, isolation_level=isolation, **changes)
        found = (resolver or self.resolver).resolve(self.tier.cache, asked, leader_epochs=leader_epochs)
        if isinstance(found, ResolvedSegment):
            self.layout.locate(self.store, found.metadata, found.ranges)
        return found

    def alone(self, offset, **changes):
        """Returns the answer without a pool."""
        return self.ask(offset, resolver=RemoteSegmentResolver(self.store, self.layout), **changes)

    def outcome(self, offset, executor=None):
        """Returns the answer or the error of a new resolver."""
        resolver = RemoteSegmentResolver(self.store, self.layout, executor=executor)
        return outcome(lambda: self.ask(offset, resolver=resolver))


def outcome(ask):
    """Returns the answer, or the type and text of the error."""
    try:
        return ask()
    except DirectFetchError as error:
        return type(error), str(error)


def number_of(key: str) -> int:
    """Returns the number of the segment of an object."""
    return uuid_from_text(key.rpartition("/")[2][21:43]).int


def at(segment: int | str, *batches: int) -> list[str]:
    """Returns the names of batch headers, by the batches' numbers in the segment."""
    return [f"{segment}.log@{SIZE * n}" for n in batches]


def files(segment: int | str, *suffixes: str) -> list[str]:
    return [f"{segment}{suffix}" for suffix in suffixes]


def segment_files(segment: int | str, *, committed: bool = True) -> list[str]:
    """Returns the objects that a window of a segment needs in the first round."""
    return [*files(segment, ".index", *(TRANSACTIONS if committed else ())), f"etag of {segment}.log"]


def first_round(newest: int, segment: int | str = 0, **changes) -> list[str]:
    return [f"{newest}{CHECKPOINT}", *segment_files(segment, **changes)]


def in_rounds(*rounds: list[str]) -> list[list[str]]:
    return [sorted(one) for one in rounds]


@pytest.mark.parametrize("committed", [True, False])
def test_a_cold_look_up_takes_two_rounds(committed):
    lookups, asked = Lookups(3), {"max_bytes": SIZE, "isolation": COMMITTED if committed else UNCOMMITTED}
    expected = in_rounds(first_round(100, committed=committed), at(0, 1, 2))
    assert lookups.rounds(map(len, expected), 15, **asked) == expected
    assert lookups.found == [lookups.alone(15, **asked)]


@pytest.mark.parametrize(("indexed", "headers"), [([1, 2, 3, 4], [1, 2, 3]), ([1, 3], [1, 3])])
def test_headers_are_read_for_both_possible_starts_of_the_window(indexed, headers):
    # Offset 25 is after the entry of batch 1, in batch 2, which may or may not have an entry.
    lookups = Lookups(2, indexed=indexed)
    assert lookups.rounds([5, len(headers)], 25, max_bytes=SIZE) == in_rounds(first_round(50), at(0, *headers))


def test_a_window_after_the_previous_one_reads_its_own_end_only():
    lookups = Lookups(2)
    expected = in_rounds(first_round(50), at(0, 1, 2, 3), at(0, 4))
    assert lookups.rounds([5, 3, 1], 5, 20, max_bytes=2 * SIZE) == expected
    assert [found.next_offset for found in lookups.found] == [20, 40]


def test_a_window_from_the_segments_start_reads_no_header_of_it():
    lookups = Lookups(2)
    expected = in_rounds(first_round(50), at(0, 2), at(0, 4))
    assert lookups.rounds([5, 1, 1], 0, 20, max_bytes=2 * SIZE) == expected
    assert [found.next_offset for found in lookups.found] == [20, 40]


def test_a_warm_look_up_reads_nothing():
    lookups = Lookups(2)
    lookups.rounds([5, 2], 15, max_bytes=SIZE)
    lookups.store.expect([])
    # The pool is shut down already.
    assert lookups.ask(15, max_bytes=SIZE) == lookups.found[0]
    assert lookups.store.rounds == []


class CountingExecutor(ThreadPoolExecutor):
    """Counts the submitted tasks."""

    submitted = 0

    def submit(self, *args, **kwargs):
        self.submitted += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize("aiven", [False, True])
def test_cached_and_started_reads_are_not_submitted(aiven):
    lookups = Lookups(2).aiven() if aiven else Lookups(2)
    with CountingExecutor(32) as executor:
        resolver = RemoteSegmentResolver(lookups.store, lookups.layout, executor=executor)
        first = lookups.ask(45, resolver=resolver)
        cold = executor.submitted
        assert lookups.ask(45, resolver=resolver) == first
        assert executor.submitted == cold > 0


def test_a_wrong_guess_of_the_segment_costs_one_more_round():
    # Two leaders wrote offsets 0 to 49. The checkpoint of the newest segment shows that the records of epoch 1 were truncated.
    lookups = Lookups(0, name=lambda key: f"{ {1: 'old', 2: 'cut', 3: 'new'}[number_of(key)] }{key[key.rindex('.') :]}")
    lookups.add(0, number=1)
    lookups.add(0, number=2, epochs=[(1, 0)])
    lookups.add(1, number=3, epochs=[(2, 50)], lineage=[(0, 0), (2, 50)])
    expected = in_rounds(
        [f"new{CHECKPOINT}", *segment_files("cut")], segment_files("old"), [one.replace("0", "old", 1) for one in at(0, 1, 2)]
    )
    assert lookups.rounds([5, 4, 2], 15, max_bytes=SIZE) == expected
    assert lookups.found[0].metadata.remote_log_segment_id.id.int == 1


def test_with_a_given_lineage_the_first_round_is_exact():
    lookups = Lookups(2)
    expected = in_rounds(segment_files(0), at(0, 1, 2))
    assert lookups.rounds([4, 2], 15, max_bytes=SIZE, leader_epochs=[EpochEntry(0, 0)]) == expected


@pytest.mark.parametrize(("offset", "changes"), [(200, {}), (15, {"end_offset": 15})])
def test_an_offset_that_is_not_granted_reads_the_lineage_only(offset, changes):
    lookups = Lookups(2)
    assert lookups.rounds([1], offset, **changes) == [[f"50{CHECKPOINT}"]]
    assert isinstance(lookups.found[0], NotRemote)


def test_an_empty_tier_reads_nothing():
    lookups = Lookups(0)
    assert lookups.rounds([], 0) == []
    assert lookups.found == [NotRemote("nothing-tiered")]


def test_a_transaction_index_known_to_be_empty_is_not_read():
    lookups = Lookups(2, txn_index_empty=True)
    first = [one for one in first_round(50) if not one.endswith(".txnindex")]
    assert lookups.rounds([4, 2], 15, max_bytes=SIZE) == in_rounds(first, at(0, 1, 2))


def groups(*numbers: list[int]) -> list[list[str]]:
    return [[one for n in group for one in files(50 * n, *TRANSACTIONS)] for group in numbers]


def test_open_transactions_are_searched_in_groups_that_double():
    lookups = Lookups(9, open_transactions=[(7, 3)])
    second, *later = groups([1, 2], [3, 4, 5, 6], [7, 8])
    expected = in_rounds(first_round(400), [*at(0, 1, 2), *second], *later)
    assert lookups.rounds([5, 6, 8, 4], 15, max_bytes=SIZE) == expected
    assert lookups.found == [lookups.alone(15, max_bytes=SIZE)]
    assert not lookups.found[0].aborted_complete


def test_a_known_window_searches_open_transactions_in_groups_too():
    lookups = Lookups(7, open_transactions=[(7, 3)])
    expected = in_rounds(first_round(300, committed=False), at(0, 1, 2), *groups([0], [1, 2], [3, 4, 5, 6]))
    lookups.store.expect(map(len, expected))
    with ThreadPoolExecutor(32) as executor:
        resolver = RemoteSegmentResolver(lookups.store, LAYOUT, executor=executor)
        for isolation in (UNCOMMITTED, COMMITTED):
            lookups.ask(15, max_bytes=SIZE, isolation=isolation, resolver=resolver)
    assert lookups.store.rounds == expected


def test_a_transaction_that_began_after_the_window_is_not_searched():
    lookups = Lookups(3, open_transactions=[(7, 45)])
    assert lookups.rounds([5, 2], 15, max_bytes=SIZE) == in_rounds(first_round(100), at(0, 1, 2))


def test_no_snapshot_is_read_of_a_segment_that_the_lineage_leaves():
    lookups = Lookups(2, open_transactions=[(7, 3)])
    lookups.tier.add([batch(80, 20, epoch=1)], number=3, epochs=[(1, 80)], lineage=[(0, 0), (1, 80)])
    second = [*at(0, 1, 2), "50.txnindex", *files(80, *TRANSACTIONS)]
    assert lookups.rounds([5, 5], 15, max_bytes=SIZE) == in_rounds(first_round(80), second)


def test_a_bound_between_index_entries_costs_a_round():
    lookups = Lookups(2, indexed=[1, 3])
    assert lookups.rounds([5, 2, 1], 15, max_bytes=SIZE, end_offset=20) == in_rounds(first_round(50), at(0, 1, 3), at(0, 1))
    assert lookups.found[0].next_offset == 20


def test_a_log_start_between_index_entries_costs_a_round():
    lookups = Lookups(2, indexed=[1, 3])
    expected = in_rounds(first_round(50), at(0, 1, 3), at(0, 1))
    assert lookups.rounds([5, 2, 1], 27, max_bytes=SIZE, log_start_offset=25) == expected
    assert lookups.found[0].span.start == 2 * SIZE


@pytest.mark.parametrize(("offset", "log_start", "headers"), [(25, 12, [1, 2, 3]), (35, 12, [2, 3, 4])])
def test_a_log_start_below_an_index_entry_costs_no_round(offset, log_start, headers):
    lookups = Lookups(2)
    expected = in_rounds(first_round(50), at(0, *headers))
    assert lookups.rounds(map(len, expected), offset, max_bytes=SIZE, log_start_offset=log_start) == expected


def test_batches_without_a_base_offset_cost_a_round():
    lookups = Lookups(2, legacy=True)
    expected = in_rounds(first_round(50), ["0.log@640", "0.log@1280", "0.log@1920"], ["0.log@640"])
    assert lookups.rounds([5, 3, 1], 15, max_bytes=SIZE) == expected


def test_a_window_at_the_end_of_a_segment_reads_the_next_one_ahead():
    lookups = Lookups(3)
    assert lookups.rounds([5, 2, 4], 45, max_bytes=SIZE) == in_rounds(first_round(100), at(0, 3, 4), segment_files(50))


@pytest.mark.parametrize(("read_end", "following"), [(50, []), (51, [segment_files(50)])])
def test_a_next_segment_past_the_read_end_is_not_read(read_end, following):
    lookups = Lookups(3)
    expected = in_rounds(first_round(100), at(0, 3, 4), *following)
    assert lookups.rounds([5, 2, 4], 45, max_bytes=10 * SIZE, read_end_offset=read_end) == expected


def test_the_read_end_is_looked_up_in_the_same_round_as_the_start():
    lookups = Lookups(2)
    expected = in_rounds(first_round(50), at(0, 1, 2))
    assert lookups.rounds([5, 2], 15, max_bytes=10 * SIZE, read_end_offset=20) == expected
    assert lookups.found == [lookups.alone(15, max_bytes=10 * SIZE, read_end_offset=20)]
    assert lookups.found[0].next_offset == 20


def test_the_last_window_of_the_tier_reads_nothing_ahead():
    lookups = Lookups(1)
    assert lookups.rounds([5, 2], 45, max_bytes=SIZE) == in_rounds(first_round(0), at(0, 3, 4))


MANIFEST = ".rsm-manifest@0"


def test_indexes_in_one_object_are_read_with_their_manifest():
    lookups = Lookups(3).aiven()
    first = [*files(100, MANIFEST, ".indexes"), *files(0, MANIFEST, ".indexes"), "etag of 0.log"]
    expected = in_rounds(first, ["0.log@0"])
    assert lookups.rounds([5, 1], 15, max_bytes=SIZE) == expected
    assert lookups.found == [lookups.alone(15, max_bytes=SIZE)]


def test_in_one_object_the_next_segments_are_read_in_the_second_round():
    lookups = Lookups(4, open_transactions=[(7, 3)]).aiven()
    first = [*files(150, MANIFEST, ".indexes"), *files(0, MANIFEST, ".indexes"), "etag of 0.log"]
    second = ["0.log@0", *files(50, MANIFEST, ".indexes"), *files(100, MANIFEST, ".indexes")]
    assert lookups.rounds([5, 5], 15, max_bytes=SIZE) == in_rounds(first, second)


def test_in_one_object_the_following_segment_is_read_ahead_once():
    lookups = Lookups(2).aiven()
    first = [*files(50, MANIFEST, ".indexes"), *files(0, MANIFEST, ".indexes"), "etag of 0.log"]
    expected = in_rounds(first, ["0.log@0"], ["50.log@0", "etag of 50.log"])
    assert lookups.rounds([5, 1, 2], 45, 60) == expected


def damages(layout):
    kinds = (
        [".leader_epoch_checkpoint", ".index", ".txnindex", ".snapshot"] if layout == "local" else [".indexes", ".rsm-manifest"]
    )
    return [(layout, suffix, damage) for suffix in [*kinds, ".log"] for damage in ("gone", "cut", "noise")]


@pytest.mark.parametrize(("layout", "suffix", "damage"), [*damages("local"), *damages("aiven")])
def test_a_failed_read_ahead_gives_the_same_error_as_without_it(layout, suffix, damage):
    lookups = Lookups(2, aborted=[(7, 0, 9, 10)]) if layout == "local" else Lookups(2).aiven()
    objects = lookups.tier.store.objects
    for key in [key for key in objects if key.endswith(suffix)]:
        data = objects.pop(key)
        if damage != "gone":
            objects[key] = data[: len(data) // 2 + 1] if damage == "cut" else bytes(byte ^ 0x5A for byte in data)
    with store_read_executor() as executor:
        for offset in (15, 45, 60):
            assert lookups.outcome(offset, executor) == lookups.outcome(offset)


def test_errors_are_raised_in_the_order_of_the_steps():
    lookups = Lookups(2, aborted=[(7, 0, 9, 10)])
    for kind in (ObjectKind.TRANSACTION_INDEX, ObjectKind.LOG):
        lookups.tier.put(lookups.segments[0], kind, b"damaged")
    with ThreadPoolExecutor(8) as executor:
        error = lookups.outcome(15, executor)
    assert error == lookups.outcome(15)
    assert ".log:" in error[1]


def test_a_read_ahead_that_failed_is_repeated():
    lookups = Lookups(2)
    data = lookups.tier.store.objects.copy()
    lookups.tier.store.objects.clear()
    with ThreadPoolExecutor(8) as executor:
        resolver = RemoteSegmentResolver(lookups.store, LAYOUT, executor=executor)
        with pytest.raises(ObjectNotFoundError):
            lookups.ask(15, resolver=resolver)
        lookups.tier.store.objects |= data
        assert lookups.ask(15, resolver=resolver) == lookups.alone(15)


def test_a_busy_or_closed_pool_delays_no_look_up():
    lookups, go = Lookups(3, open_transactions=[(7, 3)]), threading.Event()
    expected = lookups.alone(15)
    with ThreadPoolExecutor(1) as busy:
        busy.submit(go.wait)
        assert lookups.outcome(15, busy) == expected
        go.set()
    assert lookups.outcome(15, busy) == expected


def test_the_pool_starts_threads_on_demand():
    with store_read_executor() as executor:
        assert (executor._most, len(executor._threads)) == (STORE_READ_THREADS, 0)


GOLDEN_QUESTIONS = [
    lambda _: {"max_bytes": 1},
    lambda _: {"max_bytes": 20_000},
    lambda offset: {"end_offset": offset + 50},
    lambda offset: {"read_end_offset": offset + 50},
    lambda offset: {"log_start_offset": max(0, offset - 7)},
]


@pytest.mark.parametrize("cache_bytes", [1, 1 << 20])
@pytest.mark.parametrize("tip", live_partitions(), ids=str)
def test_golden_answers_equal_those_of_sequential_reads(tip, cache_bytes):
    cache, store = golden_metadata().cache(tip), golden_store()
    alone = RemoteSegmentResolver(store, LAYOUT)
    end = alone.log(cache).end_offset()
    with store_read_executor() as executor:
        at_once = RemoteSegmentResolver(store, LAYOUT, executor=executor, index_cache_bytes=cache_bytes)
        for offset in range(0, end + 1, max(1, end // 5)):
            for isolation, changes in product(IsolationLevel, GOLDEN_QUESTIONS):
                asked = tier_question(tip, offset, isolation_level=isolation, **changes(offset))
                assert outcome(partial(at_once.resolve, cache, asked)) == outcome(partial(alone.resolve, cache, asked))


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_golden_answers_of_chunked_logs_equal_those_of_sequential_reads(mode):
    store, prefix = DirectoryStore(golden_aiven(mode) / "remote"), "some-prefix/" if "aes" in mode else ""
    listing = TierListing(store, AivenLayout(prefix, key_ring()))
    alone = RemoteSegmentResolver(store, AivenLayout(prefix, key_ring()))
    with store_read_executor() as executor:
        at_once = RemoteSegmentResolver(store, AivenLayout(prefix, key_ring()), executor=executor)
        for tip in listing.partitions():
            cache = listing.cache(tip)
            for segment in cache.list_all_remote_log_segments():
                for offset in (segment.start_offset, (segment.start_offset + segment.end_offset) // 2, segment.end_offset):
                    asked = tier_question(tip, offset, max_bytes=50_000)
                    assert at_once.resolve(cache, asked) == alone.resolve(cache, asked)
