"""Probes for several partitions go to the broker in one Fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import attrs
import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.location.probes import Probe, ProbeKind
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.shim.joined_probes import JoinedProbes
from kafka_remote_client.shim.tagged_fetch import TaggedPartition, read_tagged_fetch
from tests.support.shim_fakes import batched_fetch, data

VERSION = 12
PARTITIONS = read_tagged_fetch(fetch.decode_request(fetch.encode_request(batched_fetch(*range(6)), VERSION), VERSION), VERSION)
Asked = list[tuple[int, int, int]]


class Broker:
    """Answers each Fetch when the test releases it."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.go_on = asyncio.Semaphore(0)
        self.error: Exception | None = None
        self.error_code = 0
        self.left_out: set[int] = set()

    async def send(self, version: int, body: bytes) -> fetch.FetchResponse:
        request = fetch.decode_request(body, version)
        (topic,) = request.topics
        self.asked.append([(one.partition, one.fetch_offset, one.last_fetched_epoch) for one in topic.partitions])
        await self.go_on.acquire()
        if self.error is not None:
            raise self.error
        told = (data(partition_index=one.partition) for one in topic.partitions if one.partition not in self.left_out)
        answers = () if self.error_code else (fetch.FetchTopicResponse(tuple(told), topic.topic, topic.topic_id),)
        return fetch.FetchResponse(answers, error_code=self.error_code)


def question(number: int) -> tuple[TaggedPartition, Probe]:
    return PARTITIONS.partitions[number], Probe(ProbeKind.LINEAGE, 100 + number, number)


def run(body: Callable[[Broker, JoinedProbes], Awaitable[None]]) -> None:
    async def made() -> None:
        broker = Broker()
        await body(broker, JoinedProbes(broker.send))

    asyncio.run(asyncio.wait_for(made(), 20))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_probes_that_arrive_during_a_request_go_together() -> None:
    async def body(broker: Broker, probes: JoinedProbes) -> None:
        tasks = [asyncio.create_task(probes.answer(*question(0)))]
        await turns()
        tasks += [asyncio.create_task(probes.answer(*question(number))) for number in (1, 2, 3)]
        await turns()
        assert broker.asked == [[(0, 100, 0)]]
        broker.go_on.release()
        await turns()
        assert broker.asked[1:] == [[(1, 101, 1), (2, 102, 2), (3, 103, 3)]]
        broker.go_on.release()
        assert await asyncio.gather(*tasks) == [data(partition_index=number) for number in range(4)]
        later = asyncio.create_task(probes.answer(*question(4)))
        broker.go_on.release()
        assert await later == data(partition_index=4)
        assert broker.asked[2:] == [[(4, 104, 4)]]

    run(body)


def test_probes_of_one_moment_go_together() -> None:
    async def body(broker: Broker, probes: JoinedProbes) -> None:
        broker.go_on.release()
        assert None not in await asyncio.gather(*(probes.answer(*question(number)) for number in range(3)))
        assert len(broker.asked) == 1

    run(body)


@pytest.mark.parametrize("whole", [True, False])
def test_a_partition_missing_from_the_answer_has_none(whole: bool) -> None:
    async def body(broker: Broker, probes: JoinedProbes) -> None:
        broker.error_code, broker.left_out = (ErrorCode.UNSUPPORTED_VERSION, set()) if whole else (0, {1})
        broker.go_on.release()
        answers = await asyncio.gather(*(probes.answer(*question(number)) for number in (0, 1)))
        assert [answer is None for answer in answers] == [whole, True]

    run(body)


def test_an_error_answers_all_probes_and_the_next_request_is_sent() -> None:
    async def body(broker: Broker, probes: JoinedProbes) -> None:
        broker.error = ProtocolError("no Fetch")
        tasks = [asyncio.create_task(probes.answer(*question(number))) for number in (0, 1)]
        given_up = asyncio.create_task(probes.answer(*question(2)))
        await turns()
        given_up.cancel()
        await turns()
        broker.go_on.release()
        assert [type(answer) for answer in await asyncio.gather(*tasks, return_exceptions=True)] == [ProtocolError] * 2
        broker.error = None
        broker.go_on.release()
        assert await probes.answer(*question(3)) == data(partition_index=3)

    run(body)


def test_a_cancelled_probe_takes_no_answer_from_others() -> None:
    async def body(broker: Broker, probes: JoinedProbes) -> None:
        kept, given_up = (asyncio.create_task(probes.answer(*question(number))) for number in (0, 1))
        await turns()
        given_up.cancel()
        broker.go_on.release()
        assert await kept == data(partition_index=0)
        assert given_up.cancelled()

    run(body)


def test_the_end_of_the_connection_cancels_all_waiting_probes() -> None:
    async def body(broker: Broker, probes: JoinedProbes) -> None:
        broker.error = asyncio.CancelledError()  # type: ignore[assignment] # as Ask does when the connection ends
        sent = asyncio.create_task(probes.answer(*question(0)))
        await turns()
        waiting = asyncio.create_task(probes.answer(*question(1)))
        await turns()
        broker.go_on.release()
        answers = await asyncio.gather(sent, waiting, return_exceptions=True)
        assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2
        broker.error = None
        broker.go_on.release()
        assert await probes.answer(*question(2)) == data(partition_index=2)

    run(body)


def test_versions_that_name_topics_by_id_are_answered() -> None:
    async def body(broker: Broker, probes: JoinedProbes) -> None:
        broker.go_on.release()
        by_id = fetch.decode_request(fetch.encode_request(batched_fetch(0), 13), 13)
        (asked,) = read_tagged_fetch(by_id, 13).partitions
        assert await probes.answer(asked, attrs.evolve(question(0)[1])) == data(partition_index=0)

    run(body)
