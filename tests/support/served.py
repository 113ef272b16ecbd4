"""The records that the servers of a run sent, by their own logs: the second source of invariant I12.

::

    consumer ◄── Fetch answers ── shim ── broker ── BrokerLog: offsets of each answer, as it goes out
        └─────◄── ranges ───────── scripted origin ── store_log: offsets whose bytes were sent, from its exchanges

Both read batch headers with :func:`batch_spans`. They use nothing of the client's decoder, planner or metrics.

References: Kafka's DefaultRecordBatch (baseOffset, batchLength, magic, lastOffsetDelta).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.tagged_fetch import asks_for_location
from kafka_remote_client.testing.scripted_origin import Exchange
from kafka_remote_client.tiered_kafka.topics import Topics
from tests.support.history import History, Served, Source

__all__ = ["BatchSpan", "BrokerLog", "batch_spans", "store_log"]

_FRONT = struct.Struct(">qiib")
_LAST_DELTA = struct.Struct(">i")
_LAST_DELTA_AT = 23
_HELD_SECONDS = 0.01


@attrs.frozen
class BatchSpan:
    """A batch, or a message of magic 0 or 1, in a file: bytes ``[start, end)``, and its offsets."""

    start: int
    end: int
    offsets: range


def batch_spans(data: bytes) -> Iterator[BatchSpan]:
    """The whole batches of ``data``. A compressed message set of magic 0 or 1 begins where the last batch ended."""
    at, next_offset = 0, None
    while at + _LAST_DELTA_AT + _LAST_DELTA.size <= len(data):
        base, length, _, magic = _FRONT.unpack_from(data, at)
        end = at + 12 + length
        if length < 0 or end > len(data):
            return
        if magic >= 2:
            offsets = range(base, base + _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)[0] + 1)
        else:
            offsets = range(base if next_offset is None else min(next_offset, base), base + 1)
        yield BatchSpan(at, end, offsets)
        at, next_offset = end, offsets.stop


class BrokerLog:
    """Records what the broker of an embedded cluster sends, in the history of :meth:`record`; can also hold requests.

    The cluster's archived records must be gone from its local log (``expire_local``). Nothing may be
    archived during a recorded run, because reading records that were local before is not a fallback.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        kafka: Any = cluster.kafka
        self._topics: Topics = kafka._topics
        assert self._topics.settings.log.local_retention_bytes == 0, "otherwise nobody knows which tier the broker reads"
        strategy: Any = cluster._strategy
        self._strategy = strategy
        self._collects, self._answer = strategy.collects, strategy.answer
        strategy.collects, strategy.claims, strategy.answer = self._takes, lambda *_: True, self._answered
        self._history: History | None = None
        self._held = False
        self.held_back = 0
        """The number of requests that waited while the broker was held."""

    def close(self) -> None:
        """Leaves the shim as it was."""
        for name in ("collects", "claims", "answer"):
            delattr(self._strategy, name)

    def record(self, history: History | None) -> None:
        """Writes to ``history`` from now on."""
        self._history = history

    def hold(self) -> None:
        """Stops answering, like a paused broker."""
        self._held = True

    def release(self) -> None:
        self._held = False

    def _takes(self, head: RequestHead, length: int) -> bool:
        return head.api_key == ApiKey.FETCH or self._collects(head, length)

    async def _answered(self, request: ClientRequest, ask: Ask) -> bytes | None:
        self.held_back += self._held
        while self._held:
            await asyncio.sleep(_HELD_SECONDS)
        version, key = request.header.api_version, request.header.api_key
        asked = fetch.decode_request(request.body, version) if key == ApiKey.FETCH else None
        if asked is None or asks_for_location(asked):
            answer: bytes | None = await self._answer(request, ask)
            return answer
        sent = bytes(await ask(key, version, request.body))
        if self._history is not None:
            self._note(self._history, asked, fetch.decode_response(sent, version))
        return sent

    def _note(self, history: History, request: fetch.FetchRequest, response: fetch.FetchResponse) -> None:
        first = {
            (topic.topic, topic.topic_id, one.partition): one.fetch_offset
            for topic in request.topics
            for one in topic.partitions
        }
        for answered in response.responses:
            topic = self._topics.named(answered.topic) if answered.topic else self._topics.with_id(answered.topic_id)
            for data in answered.partitions:
                partition = None if topic is None else topic.partition(data.partition_index)
                if partition is None or not partition.remote.segments or not data.records:
                    continue
                # Clients skip a batch's records before the requested offset.
                asked = first[answered.topic, answered.topic_id, data.partition_index]
                sent = (one.offsets for one in batch_spans(bytes(data.records)))
                offsets = tuple(range(max(some.start, asked), some.stop) for some in sent if some.stop > asked)
                key = partition.tip.topic, partition.tip.partition
                local_start = partition.log.local_log_start
                history.add(Served, source=Source.BROKER, key=key, offsets=offsets, local_start=local_start)


def store_log(exchanges: Iterable[Exchange], logs: Mapping[str, bytes]) -> tuple[range, ...]:
    """Returns the offsets of the batches whose bytes a store sent, even damaged ones. ``logs``: segments by their keys."""
    sent: dict[str, list[tuple[int, int]]] = {}
    for exchange in exchanges:
        if exchange.status not in {200, 206}:
            continue
        asked = exchange.request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
        for key in logs:
            if exchange.key.endswith(key):  # 200: the whole object, or still the range
                starts = {int(asked)} if exchange.status == 206 else {0, int(asked)}
                sent.setdefault(key, []).extend((start, start + exchange.sent) for start in starts)
    return tuple(
        batch.offsets for key, pieces in sent.items() for batch in batch_spans(logs[key]) if _covered(batch, sorted(pieces))
    )


def _covered(batch: BatchSpan, pieces: list[tuple[int, int]]) -> bool:
    at = batch.start
    for start, end in pieces:
        if start <= at < end:
            at = end
    return at >= batch.end
