"""The records that the servers of a run sent, by their own logs: the second source of invariant I12.

::

    consumer ◄── Fetch answers ── embedded broker ── BrokerLog: offsets of each answer, as it goes out
        └─────◄── ranges ───────── scripted origin ── store_log: offsets whose bytes were sent, from its exchanges

Both read batch headers with :func:`batch_spans`. They use nothing of the client's decoder, planner or metrics.

References: Kafka's DefaultRecordBatch (baseOffset, batchLength, magic, lastOffsetDelta).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import attrs

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.shim.tagged_fetch import asks_for_location
from kafka_remote_client.testing.origin import Exchange
from tests.support.history import History, Key, Served, Source

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
        shim: Any = cluster._shim
        self._strategy: Any = shim._strategy
        assert self._strategy._expire_local, "otherwise nobody knows which of its logs the broker reads"
        self._answer = self._strategy.answer
        self._strategy.answer = self._answered
        self._history: History | None = None
        self._held = False
        self.held_back = 0
        """The number of requests that waited while the broker was held."""

    def close(self) -> None:
        """Leaves the broker as it was."""
        self._strategy.answer = self._answer

    def record(self, history: History | None) -> None:
        """Writes to ``history`` from now on."""
        self._history = history

    def hold(self) -> None:
        """Stops answering, like a paused broker."""
        self._held = True

    def release(self) -> None:
        self._held = False

    async def _answered(self, request: Any, ask: Any) -> bytes | None:
        self.held_back += self._held
        while self._held:
            await asyncio.sleep(_HELD_SECONDS)
        answer: bytes | None = await self._answer(request, ask)
        history, version = self._history, request.header.api_version
        if history is not None and answer is not None and request.header.api_key == ApiKey.FETCH:
            asked = fetch.decode_request(request.body, version)
            if not asks_for_location(asked):
                self._note(history, asked, fetch.decode_response(answer, version))
        return answer

    def _note(self, history: History, request: fetch.FetchRequest, response: fetch.FetchResponse) -> None:
        first = {
            (topic.topic, topic.topic_id, one.partition): one.fetch_offset
            for topic in request.topics
            for one in topic.partitions
        }
        for topic in response.responses:
            for data in topic.partitions:
                asked = topic.topic, topic.topic_id, data.partition_index
                log = self._strategy._logs.log(*asked)
                if log is None or not data.records:
                    continue
                # Clients skip a batch's records before the requested offset.
                sent = (one.offsets for one in batch_spans(bytes(data.records)))
                offsets = tuple(range(max(some.start, first[asked]), some.stop) for some in sent)
                history.add(Served, source=Source.BROKER, key=self._key(*asked), offsets=offsets, local_start=log.end)

    def _key(self, topic: str, topic_id: UUID, partition: int) -> Key:
        if topic:
            return topic, partition
        logs: Mapping[tuple[str | UUID, int], object] = self._strategy._logs._logs
        log = logs[topic_id, partition]
        return next((str(name), number) for (name, number), one in list(logs.items()) if one is log and isinstance(name, str))


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
