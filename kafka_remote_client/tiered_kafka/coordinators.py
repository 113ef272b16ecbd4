"""Answers the messages of the coordinators of groups and transactions, over their pure models. Each broker coordinates all.

Committed offsets are in memory: the cluster has no ``__consumer_offsets`` and no ``__transaction_state``. A transaction does
not time out, and groups of the consumer protocol (KIP-848) do not exist.

References: Kafka's GroupCoordinator, TransactionCoordinator; KIP-98, KIP-447.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, TypeAlias
from uuid import uuid4

from kafka_remote_client.clock import Clock
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.tiered_cluster import groups
from kafka_remote_client.tiered_cluster.batches import Marker, Producer, new_marker
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.groups import Answer, Beat, Group, GroupEvent, Join, Leave, Sync, Tick
from kafka_remote_client.tiered_cluster.transactions import CommittedOffset, Transaction, Transactions
from kafka_remote_client.tiered_kafka.messages import Value
from kafka_remote_client.tiered_kafka.topics import Topics

__all__ = ["Coordinators"]

_Handler: TypeAlias = Callable[[int, int, dict[str, Any]], Value | Awaitable[Value]]
_FIRST_TOLD_ID = 4
_FIRST_LEAVE_OF_MANY = 3


class Coordinators:
    """Runs in the cluster's thread."""

    def __init__(self, topics: Topics, addresses: Mapping[int, tuple[str, int]], clock: Clock) -> None:
        self._topics = topics
        self._addresses = addresses
        self._clock = clock
        self._transactions = Transactions()
        self._groups: dict[str, Group] = {}
        self._offsets: dict[tuple[str, TopicPartition], CommittedOffset] = {}
        self._tokens = count()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def handlers(self) -> Mapping[str, _Handler]:
        """The messages by name, and what answers them."""
        return {
            "FindCoordinator": self._find_coordinator,
            "InitProducerId": self._init_producer_id,
            "AddPartitionsToTxn": self._add_partitions,
            "AddOffsetsToTxn": self._add_offsets,
            "TxnOffsetCommit": self._txn_offset_commit,
            "EndTxn": self._end_txn,
            "JoinGroup": self._join,
            "SyncGroup": self._sync,
            "Heartbeat": self._heartbeat,
            "LeaveGroup": self._leave,
            "OffsetCommit": self._offset_commit,
            "OffsetFetch": self._offset_fetch,
        }

    def _find_coordinator(self, node_id: int, _version: int, _request: dict[str, Any]) -> Value:
        host, port = self._addresses[node_id]
        return {"node_id": node_id, "host": host, "port": port}

    # Transactions.

    def _init_producer_id(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        self._transactions, begun, aborted = self._transactions.begun(request["transactional_id"])
        if aborted is not None:
            self._write_markers(aborted, Marker.ABORT)
        return {"producer_id": begun.producer_id, "producer_epoch": begun.epoch}

    def _add_partitions(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        error = self._producer_error(request)
        asked = [TopicPartition(topic["name"], number) for topic in request["topics"] for number in topic["partitions"]]
        unknown = {one for one in asked if self._topics.partition(*one) is None}
        if not error and not unknown:
            self._transactions = self._transactions.with_partitions(request["transactional_id"], asked)
        topics: dict[str, list[Value]] = {}
        for one in asked:
            code = error or (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one in unknown else ErrorCode.NONE)
            topics.setdefault(one.topic, []).append({"partition": one.partition, "error_code": code})
        return {"topics": [{"name": name, "partitions": parts} for name, parts in topics.items()]}

    def _add_offsets(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        error = self._producer_error(request)
        if not error:
            self._transactions = self._transactions.with_offsets(request["transactional_id"], {})
        return {"error_code": error}

    def _txn_offset_commit(self, _node: int, version: int, request: dict[str, Any]) -> Value:
        error = self._producer_error(request)
        if not error and version >= 3 and request["member_id"]:
            group = self._groups.get(request["group_id"], Group())
            error = groups.commit_error(group, request["member_id"], request["generation_id"])
        if not error:
            self._transactions = self._transactions.with_offsets(request["transactional_id"], _committed(request))
        return _same_error(request, error)

    def _end_txn(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        error = self._producer_error(request)
        if error:
            return {"error_code": error}
        committed = request["committed"]
        self._transactions, ended, error = self._transactions.ended(request["transactional_id"], committed=committed)
        if ended is not None:
            self._write_markers(ended, Marker.COMMIT if committed else Marker.ABORT)
            if committed:
                self._offsets.update(ended.offsets)
        return {"error_code": error}

    def _producer_error(self, request: dict[str, Any]) -> ErrorCode:
        return self._transactions.error(request["transactional_id"], request["producer_id"], request["producer_epoch"])

    def _write_markers(self, ended: Transaction, kind: Marker) -> None:
        marker = new_marker(kind, Producer(ended.producer_id, ended.epoch), self._clock.time_ms())
        for name, number in sorted(ended.partitions):
            topic = self._topics.named(name)
            if topic is not None and topic.partition(number) is not None:
                self._topics.append(topic, number, [marker])

    # Groups.

    async def _join(self, _node: int, version: int, request: dict[str, Any]) -> Value:
        instance = request["group_instance_id"]
        event = Join(
            next(self._tokens),
            self._clock.time_ms(),
            request["member_id"],
            f"{instance or 'member'}-{uuid4()}",
            tuple((one["name"], one["metadata"]) for one in request["protocols"]),
            request["session_timeout_ms"],
            request["rebalance_timeout_ms"] if version else request["session_timeout_ms"],
            instance,
            known_first=version >= _FIRST_TOLD_ID,
        )
        answer = await self._answered(request["group_id"], event)
        joined = answer.joined or groups.Joined("")
        members = [{"member_id": one, "group_instance_id": static, "metadata": data} for one, static, data in joined.members]
        return {
            "error_code": answer.error,
            "generation_id": joined.generation,
            "protocol_name": joined.protocol,
            "leader": joined.leader,
            "member_id": joined.member,
            "members": members,
        }

    async def _sync(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        assignments = {one["member_id"]: one["assignment"] for one in request["assignments"]}
        event = Sync(next(self._tokens), self._clock.time_ms(), request["member_id"], request["generation_id"], assignments)
        answer = await self._answered(request["group_id"], event)
        return {"error_code": answer.error, "assignment": answer.assignment}

    async def _heartbeat(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        event = Beat(next(self._tokens), self._clock.time_ms(), request["member_id"], request["generation_id"])
        return {"error_code": (await self._answered(request["group_id"], event)).error}

    async def _leave(self, _node: int, version: int, request: dict[str, Any]) -> Value:
        many = version >= _FIRST_LEAVE_OF_MANY
        leaving = request["members"] if many else [{"member_id": request["member_id"], "group_instance_id": None}]
        answers = []
        for one in leaving:
            event = Leave(next(self._tokens), self._clock.time_ms(), one["member_id"], one["group_instance_id"])
            answers.append({**one, "error_code": (await self._answered(request["group_id"], event)).error})
        return {"members": answers} if many else {"error_code": answers[0]["error_code"]}

    async def _answered(self, group_id: str, event: Join | Sync | Beat | Leave) -> Answer:
        waits: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[event.token] = waits
        self._step(group_id, event)
        try:
            return await waits
        finally:
            self._waiting.pop(event.token, None)

    def _step(self, group_id: str, event: GroupEvent) -> None:
        group, answers = groups.step(self._groups.get(group_id, Group()), event)
        self._groups[group_id] = group
        for answer in answers:
            waits = self._waiting.get(answer.token)
            if waits is not None and not waits.done():
                waits.set_result(answer)
        if (timer := self._timers.pop(group_id, None)) is not None:
            timer.cancel()
        due = groups.next_deadline(group)
        if due is not None:
            seconds = max(due - self._clock.time_ms(), 0) / 1000
            loop = asyncio.get_running_loop()
            self._timers[group_id] = loop.call_later(seconds, self._tick, group_id)

    def _tick(self, group_id: str) -> None:
        self._step(group_id, Tick(self._clock.time_ms()))

    def _offset_commit(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        group = self._groups.get(request["group_id"], Group())
        error = groups.commit_error(group, request["member_id"], request["generation_id"])
        if not error:
            self._offsets.update(_committed(request))
        return _same_error(request, error)

    def _offset_fetch(self, _node: int, version: int, request: dict[str, Any]) -> Value:
        group_id, topics = request["group_id"], request["topics"]
        if topics is None:
            known: dict[str, list[int]] = {}
            for group, (name, number) in self._offsets:
                if group == group_id:
                    known.setdefault(name, []).append(number)
            topics = [{"name": name, "partitions": numbers} for name, numbers in known.items()]
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [self._offset_of(group_id, topic["name"], number) for number in topic["partitions"]],
                }
                for topic in topics
            ]
        }

    def _offset_of(self, group_id: str, name: str, number: int) -> Value:
        found = self._offsets.get((group_id, TopicPartition(name, number)), CommittedOffset(-1, metadata=""))
        return {
            "partition": number,
            "offset": found.offset,
            "leader_epoch": found.leader_epoch,
            "metadata": found.metadata,
        }


def _committed(request: dict[str, Any]) -> dict[tuple[str, TopicPartition], CommittedOffset]:
    return {
        (request["group_id"], TopicPartition(topic["name"], one["partition"])): CommittedOffset(
            one["offset"], one["leader_epoch"], one["metadata"]
        )
        for topic in request["topics"]
        for one in topic["partitions"]
    }


def _same_error(request: dict[str, Any], error: ErrorCode) -> Value:
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [{"partition": one["partition"], "error_code": error} for one in topic["partitions"]],
            }
            for topic in request["topics"]
        ]
    }
