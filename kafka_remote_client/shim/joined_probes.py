"""Probes of several partitions of one request, sent to the broker together.

::

    a partition asks                     | what happens
    while no Fetch is in flight           | its question is sent at once, with those of the same turn of the loop
    while a Fetch is in flight           | its question is sent with the next Fetch, with all others that wait then

So no partition waits for others to ask, and 128 partitions cost a few requests instead of 128. Only probes that ask for no
records are joined: of several partitions that have some, a broker may send those of the first alone (KIP-74).

References: docs/wire-format.md, KIP-74.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import attrs

from kafka_remote_client.location.probes import Probe
from kafka_remote_client.protocol.fetch import FetchResponse, PartitionData
from kafka_remote_client.shim.tagged_fetch import TaggedPartition, joined_probe

__all__ = ["JoinedProbes"]

_Name = tuple[str, UUID, int]


@attrs.frozen
class _Question:
    asked: TaggedPartition
    probe: Probe
    answer: asyncio.Future[PartitionData | None]


class JoinedProbes:
    """Used in one event loop, for partitions of one request. ``send`` sends the body of a Fetch and decodes the answer."""

    def __init__(self, send: Callable[[int, bytes], Awaitable[FetchResponse]]) -> None:
        self._send = send
        self._waiting: list[_Question] = []
        self._sending: asyncio.Task[None] | None = None

    async def answer(self, asked: TaggedPartition, probe: Probe) -> PartitionData | None:
        """The broker's answer on the partition, ``None`` when the request failed as a whole or the answer leaves it out.

        ``probe.max_bytes`` is 0. A partition asks one question at a time. Raises what ``send`` raises.
        """
        question = _Question(asked, probe, asyncio.get_running_loop().create_future())
        self._waiting.append(question)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        return await question.answer

    async def _send_all(self) -> None:
        group: Sequence[_Question] = ()
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._send_group(group)
        except asyncio.CancelledError:
            for question in (*group, *self._waiting):
                question.answer.cancel()
            raise
        finally:
            self._sending = None

    async def _send_group(self, group: Sequence[_Question]) -> None:
        version = group[0].asked.version
        probes = [(one.asked, one.probe) for one in group]
        try:
            response = await self._send(version, joined_probe(probes))
        except Exception as error:  # noqa: BLE001 - each question is answered with it
            for question in group:
                if not question.answer.done():
                    question.answer.set_exception(error)
            return
        told = _by_name(response)
        for question in group:
            if not question.answer.done():  # a cancelled one has no waiter
                question.answer.set_result(told.get(question.asked.name))


def _by_name(response: FetchResponse) -> dict[_Name, PartitionData]:
    if response.error_code:
        return {}
    return {
        (topic.topic, topic.topic_id, data.partition_index): data for topic in response.responses for data in topic.partitions
    }
