"""Answers a Fetch with a location request. The broker supplies everything except the location.

::

    step | what                                                  | from
    1    | no session, a format that the tier may have           | the request
    2    | error, divergence, log start, high watermark, LSO     | the broker: the same Fetch, 0 bytes, no wait, no tags
    3    | segment, its format, ranges, aborted transactions     | the tier (a worker thread)
    4    | are the segments on the leader's lineage              | the broker: a Fetch at searched_end, with the epoch before it
    5    | aborted transactions whose marker is still local      | the broker: a Fetch at L, or at L-1 (see aborted_tail)
    6    | a signed URL per range                                | the tier (a worker thread)

A plugin may store only some segments in chunks, so formats differ between segments. After step 3 the shim checks that the
client offers the format of the segment. Only clients with encrypted connections get the key of an encrypted segment, unless
the settings permit plaintext.

If step 2 returns an error or a divergence, the shim returns the same to the client. Any other obstacle means that the shim
grants nothing: it sends the client's own request to the broker unchanged. The client learns no reason, so it cannot
distinguish a location that it may not have from a location that does not exist. All questions use the client's own
connection, so the broker applies the client's READ right, quotas and fencing.

**A batch** names several partitions. In step 2 the shim asks about all of them at once. The other steps run concurrently for
the partitions. Step 4 sends one Fetch for all partitions that have reached it, step 5 one Fetch per partition. Each partition
gets its own answer::

    the partition is             | its answer                          | the client
    granted                      | the grant                           | reads the tier
    refused, in step 2 or later  | what the broker said in step 2      | asks the broker for records
    not decided in time          | the same without records, "pending" | asks again

The shim waits for the first decision, and after each decision a moment for the next one. It answers at the latest when
MaxWaitMs is over. The look-up of a pending partition continues and fills the index cache, and the next request joins it. The
shim keeps no answer for a later request: it makes each answer within the bounds of that request's own step 2.

Steps 2, 4 and 5 are the same for every location source (:mod:`kafka_remote_client.location.leader_check`).

References: KIP-1248, KIP-1254, docs/wire-format.md.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar
from uuid import UUID

import attrs

from kafka_remote_client.errors import DirectFetchError, ProtocolError
from kafka_remote_client.location.leader_check import LeaderCheck, only_partition, readable_end
from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind, Probes
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import AbortedTransaction, GrantedRange, NotRemote
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.dialect import SegmentGrant, may_request_location, needs_large_positions
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.remote_log.layout import LocatedSegment
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.shim.audit import Granted, audit
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.client_limits import ClientLimits, client_name
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.decisions import Decisions
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.joined_probes import JoinedProbes
from kafka_remote_client.shim.lookups import Lookups
from kafka_remote_client.shim.segment_pages import EncodedPage, SegmentSource, page_of, page_question
from kafka_remote_client.shim.tagged_fetch import (
    DIALECT,
    TaggedFetch,
    TaggedPartition,
    asks_for_location,
    read_tagged_fetch,
)
from kafka_remote_client.shim.topic_ids import TopicIds

__all__ = ["GrantingBroker", "LocationTier"]

_MAX_REQUEST_BYTES = 64 << 10
_GATHER_SECONDS = 0.02
"""How long a decided partition waits for the next one of its batch: about the time of one request to the broker."""
_COUNTED = {
    ProbeKind.POSITION: (),
    ProbeKind.LINEAGE: (),
    ProbeKind.ABORTED: ("aborted_probes",),
    ProbeKind.ABORTED_IN_TIER: ("aborted_probes", "remote_probes"),
}

_BOUNDS = ("high_watermark", "last_stable_offset", "log_start_offset")

_T = TypeVar("_T")


class LocationTier(SegmentSource, Protocol):
    """The content of the tier, and how a client reads it. Called from worker threads."""

    @property
    def formats(self) -> tuple[str, ...]:
        """The storage formats that segments may have."""

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        """Finds the offset in the log ``[log_start_offset, end_offset)``. Raises RemoteLogError or RemoteStorageError.

        In :func:`kept_only` this and :meth:`locate` raise NotKeptError instead of waiting for a read.
        """

    def locate(self, resolved: ResolvedSegment) -> LocatedSegment:
        """Returns how the store holds its ranges. Raises as :meth:`resolve`."""

    def sign(
        self, located: LocatedSegment, etag: str | None, url_ttl: float | None = None
    ) -> tuple[tuple[GrantedRange, ...], float]:
        """Returns its ranges with the custom metadata for clients, and the seconds for which they are valid, up to ``url_ttl``.

        Raises RemoteStorageError.
        """


@attrs.frozen
class _Visit:
    """What the partitions of a request share: its connection, whether the connection is encrypted, how to ask the broker.

    ``client`` is the client's name in limits and totals, and ``partitions`` the number of partitions.
    ``lineage`` asks the broker on behalf of all partitions of the request.
    """

    connection: tuple[str, int]
    client_id: str
    principal: str
    client: str
    secure: bool
    ask: Ask
    topic_ids: TopicIds
    lineage: JoinedProbes
    partitions: int


@attrs.frozen
class _Decided:
    """The answer on a partition. ``expires_at``: when the URLs of a grant expire, in the loop's time; never without a grant."""

    data: PartitionData
    expires_at: float = math.inf

    @property
    def seconds_left(self) -> float:
        return self.expires_at - asyncio.get_running_loop().time()

    def told(self) -> PartitionData:
        """The answer, written now: with the life that is left of the URLs."""
        left = self.seconds_left
        if left == math.inf:
            return self.data
        return attrs.evolve(self.data, tags=DIALECT.expiring(self.data.tags, max(0, int(left * 1000))))


class GrantingBroker:
    """The strategy of a shim with a tier. One object serves all connections; its caches are bounded.

    ``workers`` run look-ups that read the store, ``kept_workers`` those that need no read: see :class:`Lookups`.
    """

    api_versions: Mapping[int, range] = {}

    def __init__(
        self,
        tier: LocationTier,
        limits: GrantLimits,
        counters: Counters,
        workers: Executor,
        kept_workers: Executor | None = None,
        clients: ClientLimits | None = None,
    ) -> None:
        self._tier = tier
        self._limits = limits
        self._clients = clients or ClientLimits()
        self._counters = counters
        self._lookups = Lookups(workers, self._look_up, limits.lookup_timeout, counters.lookups.add, kept_workers)
        self._pages = Lookups(
            workers, self._look_up_page, limits.lookup_timeout, counters.lookups.add, kept_workers, kept_at_once=1
        )
        self._decisions: Decisions[_Decided | None] = Decisions(limits.lookup_timeout)
        self._leader_check = LeaderCheck()

    def reload(self, limits: GrantLimits, client_limits: Mapping[str, Any]) -> None:
        """Replaces the limits of further grants, from any thread. The deadline of look-ups and overdrafts of clients stay.

        Raises ConfigurationError, and changes nothing then.
        """
        self._clients.reload(client_limits)
        self._limits = limits

    def collects(self, head: RequestHead, length: int) -> bool:
        return head.api_key == ApiKey.FETCH and head.api_version in DIALECT.fetch_versions and length <= _MAX_REQUEST_BYTES

    def claims(self, head: RequestHead, body: bytes) -> bool:
        return may_request_location(body)

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        version = request.header.api_version
        asked = fetch.decode_request(request.body, version)
        if not asks_for_location(asked):
            return None  # the bytes matched our tag by chance
        self._counters.add("location_requests")
        return await self._unless_refused(self._answer(asked, request, ask))

    async def _unless_refused(self, work: Awaitable[_T]) -> _T | None:
        """Returns the result of ``work``. Counts a refusal and returns ``None`` for it. Raises ProtocolError."""
        try:
            return await work
        except NotGrantedError as refused:
            self._refuse(refused.why)
        except ProtocolError:
            raise  # the broker's answer to a question of the shim does not parse
        except DirectFetchError as error:
            self._refuse(error.cause)
        return None

    def _refuse(self, why: str) -> None:
        self._counters.add(f"locations_refused.{why}")

    async def _answer(self, asked: fetch.FetchRequest, request: ClientRequest, ask: Ask) -> bytes:
        tagged = read_tagged_fetch(asked, request.header.api_version)
        lineage = JoinedProbes(partial(self._fetch, ask))
        client_id = request.header.client_id or ""
        visit = _Visit(
            (request.client, request.connection),
            client_id,
            request.principal,
            client_name(request.principal, client_id, request.client),
            request.secure,
            ask,
            TopicIds(tagged, ask),
            lineage,
            len(tagged.partitions),
        )
        if tagged.batched:
            return await self._answer_batch(tagged, visit)
        (one,) = tagged.partitions
        self._check_formats(one)
        body = await self._ask(tagged.version, tagged.probe(), ask)
        answer = fetch.decode_response(body, tagged.version)
        data = only_partition(answer)
        if answer.error_code or data is None or _is_the_answer(data):
            self._refuse("broker-error")
            return bytes(body)
        granted = await self._grant(one, data, visit)
        topics = (attrs.evolve(answer.responses[0], partitions=(granted.told(),)),)
        return _encoded(topics, answer, tagged.version)

    async def _answer_batch(self, tagged: TaggedFetch, visit: _Visit) -> bytes:
        body = await self._ask(tagged.version, tagged.probe(), visit.ask)
        answer = fetch.decode_response(body, tagged.version)
        if answer.error_code:
            self._refuse("broker-error")
            return bytes(body)
        asked = {one.name: one for one in tagged.partitions}
        told = [
            (asked.get((topic.topic, topic.topic_id, data.partition_index)), data)
            for topic in answer.responses
            for data in topic.partitions
        ]
        work = [self._decide(one, data, visit) for one, data in told]
        decided = await _first_results(work, max(0, tagged.request.max_wait_ms) / 1000)
        self._counters.add("locations_pending", decided.count(None))
        answers = iter(_pending(data) if result is None else result for result, (_, data) in zip(decided, told, strict=True))
        topics = (attrs.evolve(topic, partitions=tuple(islice(answers, len(topic.partitions)))) for topic in answer.responses)
        return _encoded(tuple(topics), answer, tagged.version)

    async def _decide(self, one: TaggedPartition | None, data: PartitionData, visit: _Visit) -> PartitionData:
        """Returns the grant of one partition of a batch, or the broker's answer. ``one``: None if it was not requested."""
        if one is None:
            return data
        if _is_the_answer(data):
            self._refuse("broker-error")
            return data
        key, question = (visit.connection, one.name), (one.version, one.isolation_level, one.partition, one.wanted)
        answer = self._grant if one.wanted.list_start is None else self._list

        def decide() -> Coroutine[Any, Any, _Decided | None]:
            return self._unless_refused(answer(one, data, visit))

        decided = await self._decisions.of(key, question, data, decide)
        if decided is not None and decided.seconds_left <= 0:  # the client asked again too late
            decided = await self._decisions.of(key, question, data, decide)
        return data if decided is None else _within(decided.told(), data)

    def _check_formats(self, tagged: TaggedPartition) -> None:
        if not set(self._tier.formats).intersection(tagged.wanted.format_versions):
            raise NotGrantedError("format")

    async def _grant(self, tagged: TaggedPartition, data: PartitionData, visit: _Visit) -> _Decided:
        self._check_formats(tagged)
        self._check_client(visit)
        resolved, located = await self._resolve(tagged, data, visit)
        if located.format not in tagged.wanted.format_versions:
            raise NotGrantedError("format")
        if located.has_data_key and not (visit.secure or self._limits.plaintext_data_keys):
            raise NotGrantedError("plaintext-data-key")
        if needs_large_positions(resolved.metadata.segment_size_in_bytes) and not tagged.wanted.large_positions:
            raise NotGrantedError("large-segment")
        leader_epoch = tagged.partition.current_leader_epoch
        confirm = self._leader_check.confirm(resolved, tagged.isolation_level, leader_epoch)
        aborted = await self._answered(tagged, confirm, visit)
        topic = resolved.metadata.remote_log_segment_id.topic_id_partition.topic
        url_ttl = self._limits.topics.of(topic).url_ttl or self._limits.url_ttl
        signed_at = asyncio.get_running_loop().time()
        ranges, life = await self._lookups.run(partial(self._tier.sign, located, resolved.etag, url_ttl))
        if not tagged.wanted.batched:
            ranges = tuple(attrs.evolve(one, first_offset=None) for one in ranges)
        self._check_client(visit)  # other grants to the client may have used up its limit since
        granted = self._granted(data, self._grant_of(resolved, located.format, ranges), aborted)
        nbytes = sum(one.range.size for one in ranges)
        self._clients.charge(visit.client, nbytes)
        self._counters.granted.add(visit.client, topic, ranges=len(ranges), nbytes=nbytes)
        _tell(resolved, tagged, visit, ranges=len(ranges), nbytes=nbytes)
        return _Decided(granted, signed_at + life)

    async def _list(self, tagged: TaggedPartition, data: PartitionData, visit: _Visit) -> _Decided:
        question = page_question(tagged, await visit.topic_ids.of(tagged), data, visit.partitions)
        found = await self._pages.answer(visit.connection, question)
        if isinstance(found, NotRemote):
            raise NotGrantedError(found.reason)
        tags, segments = found
        self._counters.add("segment_lists")
        self._counters.add("segments_listed", segments)
        return _Decided(attrs.evolve(data, records=b"", tags=tags))

    def _look_up_page(self, question: LocationQuestion) -> EncodedPage | NotRemote:
        """Runs in a worker thread."""
        return page_of(self._tier, question, self._limits.permits)

    def _check_client(self, visit: _Visit) -> None:
        if not self._clients.admits(visit.client):
            raise NotGrantedError("client-limit")

    async def _ask(self, version: int, probe: bytes, ask: Ask) -> memoryview:
        self._counters.add("probes")
        return await ask(ApiKey.FETCH, version, probe)

    async def _resolve(
        self, tagged: TaggedPartition, data: PartitionData, visit: _Visit
    ) -> tuple[ResolvedSegment, LocatedSegment]:
        end = readable_end(data, tagged.offset, tagged.isolation_level)
        topic_id = await visit.topic_ids.of(tagged)
        question = self._question(tagged, topic_id, data.log_start_offset, end, visit.partitions)
        found = await self._lookups.answer(visit.connection, question)
        if isinstance(found, NotRemote):
            raise NotGrantedError(found.reason)
        return found

    def _question(self, tagged: TaggedPartition, topic_id: UUID, log_start: int, end: int, partitions: int) -> LocationQuestion:
        """Returns a client's question within the broker's bounds. The topic's name may be empty."""
        max_bytes, range_bytes = self._limits.window(tagged.wanted.max_bytes, tagged.wanted.range_bytes, partitions)
        return LocationQuestion(
            topic=tagged.topic.topic,
            topic_id=topic_id,
            partition=tagged.partition.partition,
            offset=tagged.offset,
            isolation_level=tagged.isolation_level,
            max_bytes=max_bytes,
            range_bytes=range_bytes,
            read_end_offset=tagged.wanted.end_offset,
            log_start_offset=log_start,
            end_offset=end,
        )

    def _look_up(self, question: LocationQuestion) -> tuple[ResolvedSegment, LocatedSegment] | NotRemote:
        """Runs in a worker thread."""
        tip = self._tier.find(question.topic, question.topic_id, question.partition)
        if tip is None:
            return NotRemote("not-tiered")
        permitted = self._limits.within(question, tip.topic)
        if permitted is None:
            return NotRemote("topic-policy")
        found = self._tier.resolve(permitted)
        return found if isinstance(found, NotRemote) else (found, self._tier.locate(found))

    async def _fetch(self, ask: Ask, version: int, body: bytes) -> fetch.FetchResponse:
        return fetch.decode_response(await self._ask(version, body, ask), version)

    async def _answered(self, tagged: TaggedPartition, probes: Probes[_T], visit: _Visit) -> _T:
        """Returns the result of ``probes``, whose questions the client's broker answers."""
        try:
            probe = next(probes)
            while True:
                probe = probes.send(await self._probed(tagged, probe, visit))
        except StopIteration as done:
            result: _T = done.value
            return result

    async def _probed(self, tagged: TaggedPartition, probe: Probe, visit: _Visit) -> PartitionData | None:
        for name in _COUNTED[probe.kind]:
            self._counters.add(name)
        if probe.kind is ProbeKind.LINEAGE:
            return await visit.lineage.answer(tagged, probe)
        answer = await self._fetch(visit.ask, tagged.version, tagged.probe(probe))
        return None if answer.error_code else only_partition(answer)

    def _grant_of(self, resolved: ResolvedSegment, format_name: str, ranges: tuple[GrantedRange, ...]) -> SegmentGrant:
        segment = resolved.metadata
        return SegmentGrant(
            segment_id=segment.remote_log_segment_id.id,
            format=format_name,
            ranges=ranges,
            segment_size=segment.segment_size_in_bytes,
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            leader_epochs=segment.segment_leader_epochs,
            next_offset=resolved.next_offset,
        )

    def _granted(
        self, data: PartitionData, grant: SegmentGrant, aborted: tuple[AbortedTransaction, ...] | None
    ) -> PartitionData:
        try:
            tags = DIALECT.grant_tags(grant)
        except ProtocolError:  # the tier's data about this segment is inconsistent
            raise NotGrantedError("inconsistent") from None
        self._counters.add("locations_granted")
        self._counters.add("ranges_granted", len(grant.ranges))
        self._counters.add("bytes_granted", grant.span.size)
        return PartitionData(
            data.partition_index,
            high_watermark=data.high_watermark,
            last_stable_offset=data.last_stable_offset,
            log_start_offset=data.log_start_offset,
            aborted_transactions=aborted,
            records=b"",
            tags=tags,
        )


def _is_the_answer(data: PartitionData) -> bool:
    """Whether the client gets the broker's answer on a partition regardless of the tier: an error, or a divergence."""
    return bool(data.error_code) or fetch.DIVERGING_EPOCH_TAG in data.tags


def _tell(resolved: ResolvedSegment, tagged: TaggedPartition, visit: _Visit, *, ranges: int, nbytes: int) -> None:
    segment = resolved.metadata.remote_log_segment_id
    audit(
        Granted(
            principal=visit.principal,
            client_id=visit.client_id,
            client=visit.connection[0],
            topic=segment.topic_id_partition.topic,
            partition=segment.topic_id_partition.partition,
            offset=tagged.offset,
            next_offset=resolved.next_offset,
            ranges=ranges,
            bytes=nbytes,
            segment=segment.id,
        )
    )


def _within(granted: PartitionData, data: PartitionData) -> PartitionData:
    """Returns a grant with the bounds that the broker gave to the request that receives the grant."""
    return attrs.evolve(granted, **{name: getattr(data, name) for name in _BOUNDS})


def _pending(data: PartitionData) -> PartitionData:
    """Returns the answer while the look-up runs, with the broker's numbers."""
    return attrs.evolve(data, records=b"", tags=DIALECT.pending_tags())


def _encoded(topics: tuple[fetch.FetchTopicResponse, ...], answer: fetch.FetchResponse, version: int) -> bytes:
    """Encodes the shim's answer, with the broker's throttle time."""
    return fetch.encode_response(fetch.FetchResponse(topics, throttle_time_ms=answer.throttle_time_ms), version)


async def _first_results(work: Sequence[Coroutine[Any, Any, _T]], seconds: float) -> list[_T | None]:
    """Returns the results; ``None`` = not finished within ``seconds``, or shortly after the last one that finished.

    While results keep arriving, it waits the whole time. It cancels unfinished work.
    """
    tasks = [asyncio.create_task(one) for one in work]
    now = asyncio.get_running_loop().time
    ends_at, patience = now() + seconds, seconds
    pending: AbstractSet[asyncio.Task[_T]] = set(tasks)
    try:
        while pending:
            timeout = max(0, min(ends_at - now(), patience))
            done, pending = await asyncio.wait(pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            patience = _GATHER_SECONDS
        return [task.result() if task.done() else None for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
