"""Bugs that the checker must catch. Each has a wrong function for the product's, a scenario, and what must catch it.

``caught_by`` are invariants (I1 to I12) and checks of the scenario (``only-…``). Each of them must fail, and no other
invariant may fail. A bug whose function no longer exists, or that never ran, is also a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import confluent_kafka
import crc32c
from confluent_kafka import Message, TopicPartition
from kafka_remote_fetchers._allow_list import StoreTarget

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import Action
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.records import columns
from kafka_remote_client.records.aborted import AbortedTransactionFilter
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.tiered_cluster.segment_files import FileKind

__all__ = ["BUGS", "Bug"]

Make = Callable[[Any], Callable[..., Any]]

_SHORT_SECONDS, _LEFT_SECONDS, _LONG_SECONDS = 2.0, 5.0, 60.0
_RECORDS = "kafka_remote_client.records."
_BUILDER = _RECORDS + "completed_fetch:ColumnBuilder"
_FETCH = "kafka_remote_client.fetch."
_CONSUMER = "kafka_remote_client.consumer."
_ANY_OFFSET = -1


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@attrs.frozen
class Bug:
    """``patience``: seconds after which the scenario gives up; only for bugs that stop all delivery.

    ``also``: invariants that may fail too, depending on timing.
    """

    name: str
    place: str
    make: Make
    scenario: str
    caught_by: frozenset[str] = attrs.field(converter=_names)
    patience: float = 60.0
    also: frozenset[str] = attrs.field(default=(), converter=_names)


def _constant(value: Any) -> Make:
    return lambda _: lambda *args, **kwargs: value


# -- records ---------------------------------------------------------------------------------------------------------------


def _scans_with_checksums_made_right(scan: Any) -> Callable[..., Any]:
    def scans(data: memoryview, expected: int, rules: Any) -> Any:
        repaired = bytearray(data)
        at = 0
        while len(repaired) - at >= 61:
            size = 12 + int.from_bytes(repaired[at + 8 : at + 12], "big")
            if size <= 61 or at + size > len(repaired):
                break
            repaired[at + 17 : at + 21] = crc32c.crc32c(bytes(repaired[at + 21 : at + size])).to_bytes(4, "big")
            at += size
        return scan(memoryview(bytes(repaired)), expected, rules)

    return scans


def _scans_batch_by_batch(scan: Any) -> Callable[..., Any]:
    def scans(data: memoryview, expected: int, rules: Any) -> Any:
        size = 12 + int.from_bytes(data[8:12], "big")
        return scan(data[:size], _ANY_OFFSET, rules)

    return scans


def _built_in_python(
    builder: type[columns.ColumnBuilder] = columns.ColumnBuilder,
    filter_class: type[AbortedTransactionFilter] = AbortedTransactionFilter,
) -> Make:
    """A wrong ColumnBuilder or filter. Both are in Python, because a test cannot replace parts of the kernel."""
    filters: dict[int, tuple[Any, AbortedTransactionFilter]] = {}

    def build(*args: Any, aborted: Any, **options: Any) -> columns.ColumnBuilder:
        if aborted is not None:
            # All blocks of a grant share one filter. The dict keeps the right one, so that no other object gets its id.
            aborted = filters.setdefault(id(aborted), (aborted, filter_class(aborted.entries)))[1]
        return builder(*args, aborted=aborted, **options)

    return lambda _: build


class _TakesControlBatches(columns.ColumnBuilder):
    def _delivers(self, header: BatchHeader) -> bool:
        return header.is_control or super()._delivers(header)


class _DropsNothing(AbortedTransactionFilter):
    def drops(self, header: BatchHeader, *, is_abort_marker: bool) -> bool:
        return False


class _TakesTheListAsItComes(AbortedTransactionFilter):
    def __init__(self, aborted_transactions: Iterable[AbortedTransaction]) -> None:
        super().__init__(aborted_transactions)
        self._pending = [(entry.first_offset, entry.producer_id) for entry in self.entries]


class _DropsAllTransactions(AbortedTransactionFilter):
    def drops(self, header: BatchHeader, *, is_abort_marker: bool) -> bool:
        return header.is_transactional


class _EndsTransactionsFirst(AbortedTransactionFilter):
    def drops(self, header: BatchHeader, *, is_abort_marker: bool) -> bool:
        if is_abort_marker:
            self._active.discard(header.producer_id)
            return False
        return super().drops(header, is_abort_marker=False)


def _shifted(**shifts: int) -> Make:
    """A constructor whose arguments are shifted."""
    return lambda made: lambda *args, **kwargs: made(*args, **kwargs | {name: kwargs[name] + by for name, by in shifts.items()})


def _messages(**wrong: Callable[[Message], Any]) -> Make:
    """Messages with some fields changed."""
    names = ("topic", "partition", "offset", "key", "value", "headers", "error", "timestamp", "latency", "leader_epoch")

    def remade(message: Message) -> Message:
        fields: list[Any] = [wrong[name](message) if name in wrong else getattr(message, name)() for name in names]
        fields[names.index("latency")] = -1.0
        return Message(*fields)

    return lambda messages: lambda *args, **kwargs: [remade(message) for message in messages(*args, **kwargs)]


def _of_any_epoch(rules: Any) -> Callable[..., Any]:
    return lambda metadata, **kwargs: attrs.evolve(rules(metadata, **kwargs), epochs=None)


class _FirstSegment:
    """A log that ends with the first segment of a read."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def segments_from(self, offset: int) -> Any:
        return list(self._log.segments_from(offset))[:1]


def _collects_from_one_segment(collect: Any) -> Callable[..., Any]:
    def collecting(indexes: Any, log: Any, start: int, end: int, *_: Any) -> Any:
        return attrs.evolve(collect(indexes, _FirstSegment(log), start, end), is_complete=True)

    return collecting


def _loses_a_batch(make: Any) -> Callable[..., Any]:
    def making(log: Any, number: int) -> Any:
        files, (*_, last) = make(log, number), log.segments[number].batches
        return {kind: data[: -len(last.data)] if kind is FileKind.LOG else data for kind, data in files.items()}

    return making


# -- engine ----------------------------------------------------------------------------------------------------------------


def _decodes_from_the_front(decode: Any) -> Callable[..., Any]:
    def decoding(self: Any, read: Any, **kwargs: Any) -> Any:
        read.verified = 0
        return decode(self, read, **kwargs)

    return decoding


def _closes_half(close: Any) -> Callable[..., Any]:
    def closing(self: Any, timeout: float = 2.0) -> None:
        self._fetcher.close()
        self._source.close()

    return closing


# -- consumer --------------------------------------------------------------------------------------------------------------


def _hands_over(shift: int) -> Make:
    def make(go_broker: Any) -> Callable[..., Any]:
        def going(self: Any, flow: Any, event: Any) -> None:
            flow.next_offset += shift
            go_broker(self, flow, event)

        return going

    return make


def _begins_a_record_early(starts: Any) -> Callable[..., Any]:
    def beginning(self: Any, partitions: Any, seconds: float) -> dict[tuple[str, int], Any]:
        found = starts(self, partitions, seconds)
        for start in found.values():
            start.offset -= start.offset > 0
        return dict(found)

    return beginning


def _jumps_to_the_start(end_read: Any) -> Callable[..., Any]:
    def ending(self: Any, flow: Any, end: Any) -> None:
        if end.out_of_range:
            bounds = self._engine._source.offsets(*flow.key, Deadline(SystemClock(), _LONG_SECONDS))
            end = attrs.evolve(end, next_offset=max(end.next_offset, bounds.log_start))
        end_read(self, flow, end)

    return ending


def _falls_back_twice(fell_back: Any) -> Callable[..., Any]:
    def falling(self: Any, fallback: Any) -> None:
        for _ in range(2):
            fell_back(self, fallback)

    return falling


def _counts_for_the_store(_: Any) -> Callable[..., Any]:
    return lambda self, arrived: self._routing._metrics.add(
        "remote-fetch-records-total", sum(message.error() is None for message in arrived)
    )


def _detaches_but_keeps_the_block(detach: Any) -> Callable[..., Any]:
    def detaching(self: Any) -> None:
        if self.reader is not None:
            self.reader.stop()
        self.reader = None

    return detaching


def _keeps_reading(name: str) -> Make:
    """Calls librdkafka only."""
    return lambda _: getattr(confluent_kafka.Consumer, name)


def _closes_librdkafka_alone(_: Any) -> Callable[..., Any]:
    def closing(self: Any) -> None:
        self._direct_delivery_queue.close()
        confluent_kafka.Consumer.close(self)
        self._direct_engine.close()

    return closing


def _revokes_nothing(_: Any) -> Callable[..., Any]:
    return lambda self, callback, **_: lambda consumer, partitions: callback(consumer, partitions) if callback else None


def _stores_what_was_gathered(_: Any) -> Callable[..., Any]:
    return lambda self, batch: [flow.here for flow in self._flows]


def _without_epoch(_: Any) -> Callable[..., Any]:
    return lambda topic, partition, offset, epoch: TopicPartition(topic, partition, offset)


def _forgets_ends(hand_out: Any) -> Callable[..., Any]:
    return lambda self, limit: [message for message in hand_out(self, limit) if message.error() is None]


def _counts(times: int, cause: str | None = None) -> Make:
    def make(fallback: Any) -> Callable[..., Any]:
        def counting(self: Any, reason: str) -> None:
            for _ in range(times):
                fallback(self, cause or reason)

        return counting

    return make


# -- HTTP ------------------------------------------------------------------------------------------------------------------


def _follows_redirects(exchange: Any) -> Callable[..., Any]:
    def following(self: Any, target: Any, headers: dict[str, str], deadline: Any) -> Any:
        connection, response = exchange(self, target, headers, deadline)
        if response.status not in {301, 302, 307, 308}:
            return connection, response
        scheme, _, rest = response.headers["Location"].partition("://")
        authority, _, path = rest.partition("/")
        host, _, port = authority.partition(":")
        self._pool.discard(connection)
        return exchange(self, StoreTarget(scheme, host, int(port), f"/{path}"), headers, deadline)

    return following


def _takes_any_status(checked: Any) -> Callable[..., Any]:
    return lambda response, wanted, host: (
        wanted.end - wanted.start if response.status == 200 else checked(response, wanted, host)
    )


def _takes_short_bodies(read_some: Any) -> Callable[..., Any]:
    def reading(self: Any, rest: memoryview) -> int:
        try:
            return int(read_some(self, rest))
        except Exception:
            return len(rest)

    return reading


BUGS = (
    # -- records
    Bug(
        "checksums are ignored",
        _RECORDS + "completed_fetch:scan_batches",
        _scans_with_checksums_made_right,
        "flipped",
        {"I5"},
    ),
    Bug(
        "gaps between batches are ignored",
        _RECORDS + "completed_fetch:scan_batches",
        _scans_batch_by_batch,
        "swapped",
        {"I1", "I4"},
    ),
    Bug("leader epochs are ignored", _RECORDS + "batch:BatchRules.of_segment", _of_any_epoch, "other-epoch", {"I5"}),
    Bug("control batches are delivered", _BUILDER, _built_in_python(_TakesControlBatches), "read", {"I1", "I4", "I6"}),
    Bug(
        "read_uncommitted delivers control batches",
        _BUILDER,
        _built_in_python(_TakesControlBatches),
        "read-uncommitted",
        {"I6"},
    ),
    Bug("aborted records are delivered", _BUILDER, _built_in_python(filter_class=_DropsNothing), "read", {"I6"}),
    Bug(
        "the aborted list is used unsorted",
        _BUILDER,
        _built_in_python(filter_class=_TakesTheListAsItComes),
        "unsorted",
        {"I6"},
    ),
    Bug(
        "every transaction is dropped",
        _BUILDER,
        _built_in_python(filter_class=_DropsAllTransactions),
        "read",
        {"I1", "I4"},
    ),
    Bug(
        "a marker ends its transaction before its start",
        _BUILDER,
        _built_in_python(filter_class=_EndsTransactionsFirst),
        "starts",
        {"I1", "I4"},
    ),
    Bug(
        "the first record of a grant is lost",
        _RECORDS + "completed_fetch:ColumnBuilder",
        _shifted(fetch_offset=1),
        "read",
        {"I1", "I4"},
    ),
    Bug(
        "the last record of a segment is lost",
        _RECORDS + "completed_fetch:ColumnBuilder",
        _shifted(end_offset=-1),
        "read",
        {"I1", "I4"},
    ),
    Bug(
        "log-append times look like create times",
        _RECORDS + "block:RecordBlock.messages",
        _messages(timestamp=lambda m: (1, m.timestamp()[1])),
        "read",
        {"I5"},
    ),
    Bug(
        "timestamps are cut to seconds",
        _RECORDS + "block:RecordBlock.messages",
        _messages(timestamp=lambda m: (m.timestamp()[0], m.timestamp()[1] // 1000 * 1000)),
        "read",
        {"I5"},
    ),
    Bug("headers are dropped", _RECORDS + "block:RecordBlock.messages", _messages(headers=lambda m: None), "read", {"I5"}),
    Bug(
        "keys and values are swapped",
        _RECORDS + "block:RecordBlock.messages",
        _messages(key=lambda m: m.value(), value=lambda m: m.key()),
        "read",
        {"I5"},
    ),
    Bug(
        "null values are empty",
        _RECORDS + "block:RecordBlock.messages",
        _messages(value=lambda m: m.value() or b""),
        "read",
        {"I5"},
    ),
    Bug(
        "messages have no leader epoch",
        _RECORDS + "block:RecordBlock.messages",
        _messages(leader_epoch=lambda m: -1),
        "read",
        {"I5"},
    ),
    # -- locations
    Bug(
        "only one segment's aborted transactions are known",
        "kafka_remote_client.remote_log.resolver:collect_aborted_transactions",
        _collects_from_one_segment,
        "read",
        {"I6"},
    ),
    Bug(
        "the end of a lineage is ignored",
        "kafka_remote_client.remote_log.lineage:LeaderEpochLineage.agreed_end",
        lambda _: lambda self, metadata, offset: metadata.end_offset + 1,
        "forked",
        {"I5"},
        also={"I12"},  # the leader refuses a client that has records of the other lineage
    ),
    Bug(
        "an expired location is used",
        _FETCH + "locate:refusal",
        _constant(None),
        "expired",
        {"I9"},
        patience=_SHORT_SECONDS,
    ),
    Bug(
        "the last stable offset is ignored",
        _FETCH + "partition_read:readable_end",
        lambda _: lambda location, isolation, end: location.next_offset,
        "undecided",
        {"only-decided"},
    ),
    Bug(
        "a grant ends one offset early",
        _FETCH + "partition_read:readable_end",
        lambda end: lambda *args: end(*args) - 1,
        "read",
        {"I12", "only-causes"},
    ),
    Bug(
        "copying a segment loses a batch",
        "kafka_remote_client.tiered_cluster.partition:segment_files",
        _loses_a_batch,
        "written",
        {"I1"},
        also={"I9"},
        patience=_SHORT_SECONDS,
    ),
    # -- engine
    Bug(
        "a repeated range is decoded from its start",
        _FETCH + "grant_read:GrantRead.decode",
        _decodes_from_the_front,
        "broken-off",
        {"only-errors"},
        also={"I12"},
    ),
    Bug(
        "failed reads are not retried",
        _FETCH + "admission:policy.decide",
        _constant(Action.BROKER),
        "broken-off",
        {"I12", "only-causes"},
    ),
    Bug(
        "memory of blocks is not released",
        _FETCH + "memory:ReadyBlock.release",
        _constant(None),
        "leaks",
        {"I11"},
    ),
    Bug("memory has no limit", _FETCH + "memory:MemoryBudget.fits", _constant(True), "hoarded", {"I11"}),
    Bug("threads outlive the engine", _FETCH + "engine:FetchEngine.close", _closes_half, "leaks", {"I11"}, _LEFT_SECONDS),
    Bug(
        "connections outlive the fetcher",
        "kafka_remote_fetchers.presigned:PresignedFetcher.close",
        _constant(None),
        "leaks",
        {"I11"},
        _LEFT_SECONDS,
    ),
    # -- consumer
    Bug("the broker continues one record late", _CONSUMER + "routing:Routing.go_broker", _hands_over(1), "read", {"I1", "I4"}),
    Bug(
        "the broker continues one record early", _CONSUMER + "routing:Routing.go_broker", _hands_over(-1), "read", {"I2", "I3"}
    ),
    Bug("a fallback delivers twice", _CONSUMER + "routing:Routing.go_broker", _hands_over(-2), "down", {"I2", "I3"}),
    Bug(
        "reading stops after the tier",
        _CONSUMER + "routing:Routing._end",
        _constant(None),
        "down",
        {"I9"},
        patience=_SHORT_SECONDS,
    ),
    Bug(
        "reading stops after a broker outage",
        _CONSUMER + "routing:Routing._end",
        _constant(None),
        "outage",
        {"I9"},
        patience=_SHORT_SECONDS,
    ),
    Bug(
        "a consumer starts a record early",
        _CONSUMER + "committed_offsets:CommittedOffsets.starts",
        _begins_a_record_early,
        "restarted",
        {"I2"},
    ),
    Bug(
        "a deleted position moves to the log's start",
        _CONSUMER + "routing:Routing._end",
        _jumps_to_the_start,
        "deleted",
        {"I10"},
    ),
    Bug(
        "fallbacks are neither counted nor logged",
        _CONSUMER + "routing:Routing._fell_back",
        _constant(None),
        "down",
        {"I12"},
    ),
    Bug(
        "fallbacks are counted and logged twice",
        _CONSUMER + "routing:Routing._fell_back",
        _falls_back_twice,
        "flipped",
        {"I12"},
    ),
    Bug(
        "the broker's records are counted as the store's",
        _CONSUMER + "deliveries:Deliveries._count",
        _counts_for_the_store,
        "read",
        {"I12"},
    ),
    Bug("fallbacks are not counted", "kafka_remote_client.metrics:FetchMetrics.fallback", _counts(0), "down", {"I12"}),
    Bug("fallbacks are counted twice", "kafka_remote_client.metrics:FetchMetrics.fallback", _counts(2), "down", {"I12"}),
    Bug(
        "fallbacks are counted under another cause",
        "kafka_remote_client.metrics:FetchMetrics.fallback",
        _counts(1, "other"),
        "down",
        {"I12"},
    ),
    Bug(
        "the broker's records are not counted",
        _CONSUMER + "deliveries:Deliveries._count",
        _constant(None),
        "read",
        {"I12"},
    ),
    Bug(
        "a seek keeps the block in hand",
        _CONSUMER + "partition_flow:PartitionFlow.detach",
        _detaches_but_keeps_the_block,
        "walk",
        {"I7"},
    ),
    Bug(
        "a seek keeps gathered records",
        _CONSUMER + "deliveries:Deliveries.take_back",
        _constant(None),
        "walk",
        {"I7"},
        also={"I3", "I4"},
    ),
    Bug(
        "pause reaches librdkafka only",
        _CONSUMER + "direct_consumer:DirectConsumer.pause",
        _keeps_reading("pause"),
        "walk",
        {"I7"},
    ),
    Bug(
        "unassign reaches librdkafka only",
        _CONSUMER + "direct_consumer:DirectConsumer.unassign",
        _keeps_reading("unassign"),
        "unassigned",
        {"I7"},
    ),
    Bug(
        "incremental_unassign reaches librdkafka only",
        _CONSUMER + "direct_consumer:DirectConsumer.incremental_unassign",
        _keeps_reading("incremental_unassign"),
        "assigned-otherwise",
        {"I7"},
    ),
    Bug(
        "close reaches librdkafka only",
        _CONSUMER + "direct_consumer:DirectConsumer.close",
        _closes_librdkafka_alone,
        "closed",
        {"I7"},
    ),
    Bug(
        "a revocation keeps gathered records",
        _CONSUMER + "assignment:Assignment.revoking",
        _revokes_nothing,
        "revoked",
        {"I7"},
    ),
    Bug(
        "gathered records are stored as delivered",
        _CONSUMER + "deliveries:Deliveries._reached_in",
        _stores_what_was_gathered,
        "walk",
        {"I8"},
    ),
    Bug(
        "positions count gathered records",
        _CONSUMER + "partition_flow:PartitionFlow.handed",
        lambda _: lambda self: self.here,
        "walk",
        {"I8"},
    ),
    Bug("offsets are stored without their epoch", _CONSUMER + "partition_flow:topic_partition", _without_epoch, "walk", {"I8"}),
    Bug(
        "the end of a partition is not reported",
        _CONSUMER + "deliveries:Deliveries._hand_out",
        _forgets_ends,
        "read",
        {"I9"},
        patience=_SHORT_SECONDS,
    ),
    # -- HTTP
    Bug(
        "redirects are followed",
        "kafka_remote_fetchers._range_client:RangeClient._exchange",
        _follows_redirects,
        "redirected",
        {"only-allowed"},
    ),
    Bug(
        "Content-Range is ignored",
        "kafka_remote_fetchers._range_client:partial_content_length",
        lambda _: lambda headers, wanted: wanted.end - wanted.start,
        "other-range",
        {"I5"},
    ),
    Bug("status 200 counts as 206", "kafka_remote_fetchers._range_client:_checked", _takes_any_status, "no-range", {"I5"}),
    Bug(
        "a short body counts as complete",
        "kafka_remote_fetchers._range_stream:HttpRangeStream._read_some",
        _takes_short_bodies,
        "broken-off",
        {"only-errors"},
        also={"I12"},
    ),
    Bug(
        "the allow-list is ignored",
        "kafka_remote_fetchers._allow_list:_Entry.covers",
        _constant(True),
        "forbidden",
        {"only-allowed"},
    ),
    Bug(
        "plain http is always permitted",
        "kafka_remote_fetchers._allow_list:AllowList.parse",
        lambda parse: lambda text, allow_http=False: parse(text, allow_http=True),
        "plain-http",
        {"only-allowed"},
    ),
    Bug(
        "private addresses are always permitted",
        "kafka_remote_fetchers._store_addresses:is_permitted_address",
        _constant(True),
        "private",
        {"only-allowed"},
    ),
)
