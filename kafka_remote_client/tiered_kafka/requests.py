"""Answers the requests of clients: which handler takes which message, and all handlers of topics and records.

::

    ApiVersions, Metadata               codecs of protocol/
    Fetch, ListOffsets                  fetches.py
    groups and transactions             coordinators.py
    all other messages                  here, over messages.py

The brokers of a cluster share one state, so each answers for all: only Produce, Fetch and ListOffsets must go to the leader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.protocol import api_versions, metadata
from kafka_remote_client.protocol.api_keys import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, ApiKey
from kafka_remote_client.tiered_cluster import epochs, idempotence
from kafka_remote_client.tiered_cluster.batches import Batch, parse_batches, records_of
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.partition import Partition
from kafka_remote_client.tiered_cluster.producers import RecentBatch
from kafka_remote_client.tiered_kafka.coordinators import Coordinators
from kafka_remote_client.tiered_kafka.fetches import Fetches, leader_error
from kafka_remote_client.tiered_kafka.messages import MESSAGES, Value
from kafka_remote_client.tiered_kafka.topics import Topic, Topics
from kafka_remote_client.wire import Buffer

__all__ = ["CLUSTER_ID", "PROTOCOL_APIS", "Requests"]

CLUSTER_ID = "tiered-kafka"
_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
"""What IncrementalAlterConfigs does to a setting."""
_FROM_TOPIC, _FROM_DEFAULT = 1, 5
_NO_TIME = -1
PROTOCOL_APIS = (FETCH, LIST_OFFSETS, METADATA, API_VERSIONS)
"""The messages whose codecs are those of ``protocol/``."""

_Handler: TypeAlias = Callable[[int, int, dict[str, Any]], Value | Awaitable[Value]]


class Requests:
    """``addresses``: host and port of each broker, by its id; filled once they listen. Runs in the cluster's thread."""

    def __init__(self, topics: Topics, addresses: Mapping[int, tuple[str, int]], clock: Clock, fetches: Fetches) -> None:
        self._topics = topics
        self._addresses = addresses
        self._fetches = fetches
        self._coordinators = Coordinators(topics, addresses, clock)
        self._handlers: Mapping[str, _Handler] = {
            "Produce": self._produce,
            "CreateTopics": self._create_topics,
            "DeleteTopics": self._delete_topics,
            "DeleteRecords": self._delete_records,
            "OffsetForLeaderEpoch": self._offset_for_leader_epoch,
            "CreatePartitions": self._create_partitions,
            "DescribeConfigs": self._describe_configs,
            "IncrementalAlterConfigs": self._alter_configs,
            "DescribeCluster": self._describe_cluster,
            **self._coordinators.handlers(),
        }

    async def answer(self, node_id: int, api_key: int, version: int, body: Buffer) -> bytes | None:
        """The body of the response; ``None`` for a request that has none. Raises ProtocolError."""
        match api_key:
            case ApiKey.API_VERSIONS:
                return self._api_versions(version)
            case ApiKey.METADATA:
                return self._metadata(version, body)
            case ApiKey.FETCH:
                return await self._fetches.answer_fetch(node_id, version, body)
            case ApiKey.LIST_OFFSETS:
                return self._fetches.answer_list_offsets(node_id, version, body)
        message = MESSAGES[api_key]
        request = message.decode_request(body, version)
        answer = self._handlers[message.name](node_id, version, request)
        value = await answer if isinstance(answer, Awaitable) else answer
        return None if message.name == "Produce" and not request["acks"] else message.encode_response(value, version)

    def _api_versions(self, version: int) -> bytes:
        keys = [
            *(
                api_versions.ApiVersion(key, message.versions[0], message.versions[-1])
                for key, message in MESSAGES.items()
                if message.name in self._handlers
            ),
            *(api_versions.ApiVersion(api.key, api.versions[0], api.versions[-1]) for api in PROTOCOL_APIS),
        ]
        unknown = version not in API_VERSIONS.versions
        response = api_versions.ApiVersionsResponse(
            ErrorCode.UNSUPPORTED_VERSION if unknown else ErrorCode.NONE,
            tuple(sorted(keys, key=lambda entry: entry.api_key)),
        )
        return api_versions.encode_response(response, 0 if unknown else version)

    # Topics.

    def _metadata(self, version: int, body: Buffer) -> bytes:
        # librdkafka writes null in four bytes where one is due, and brokers ignore what then follows the message.
        asks_for_all = METADATA.reader(body, version).flexible and bytes(body[:1]) == b"\0"
        request = metadata.MetadataRequest() if asks_for_all else metadata.decode_request(body, version)
        if request.topics is None:
            topics = [_described(topic) for topic in self._topics.all()]
        else:
            creates = request.allow_auto_topic_creation or version < 4
            topics = [self._asked_topic(asked, creates=creates) for asked in request.topics]
        brokers = tuple(metadata.MetadataBroker(node, host, port) for node, (host, port) in self._addresses.items())
        response = metadata.MetadataResponse(brokers, tuple(topics), CLUSTER_ID, next(iter(self._addresses)))
        return metadata.encode_response(response, version)

    def _asked_topic(self, asked: metadata.MetadataRequestTopic, *, creates: bool) -> metadata.MetadataTopic:
        if asked.name is None:
            known = self._topics.with_id(asked.topic_id)
            missing = metadata.MetadataTopic(None, error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=asked.topic_id)
            return missing if known is None else _described(known)
        known = self._topics.named(asked.name)
        if known is None and creates:
            try:
                known = self._topics.create(asked.name)
            except ValueError:
                return metadata.MetadataTopic(asked.name, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION)
        unknown = metadata.MetadataTopic(asked.name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return unknown if known is None else _described(known)

    def _create_topics(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        answers = []
        for asked in request["topics"]:
            error, message = ErrorCode.NONE, None
            partitions = len(asked["assignments"]) or asked["num_partitions"]
            try:
                settings = self._topics.settings.changed({entry["name"]: entry["value"] for entry in asked["configs"]})
                if self._topics.named(asked["name"]) is not None:
                    error = ErrorCode.TOPIC_ALREADY_EXISTS
                elif partitions == 0 or partitions < -1:
                    error = ErrorCode.INVALID_PARTITIONS
                elif not request["validate_only"]:
                    self._topics.create(asked["name"], partitions if partitions > 0 else None, settings)
            except ConfigurationError as invalid:
                error, message = ErrorCode.INVALID_CONFIG, str(invalid)
            except ValueError as invalid:
                error, message = ErrorCode.INVALID_TOPIC_EXCEPTION, str(invalid)
            answers.append({"name": asked["name"], "error_code": error, "error_message": message})
        return {"topics": answers}

    def _delete_topics(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        answers = []
        for name in request["names"]:
            known = self._topics.named(name) is not None
            if known:
                self._topics.delete(name)
            error = ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answers.append({"name": name, "error_code": error})
        return {"topics": answers}

    def _create_partitions(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        answers = []
        for asked in request["topics"]:
            topic, error, message = self._topics.named(asked["name"]), ErrorCode.NONE, None
            if topic is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif asked["count"] <= len(topic.partitions):
                error, message = ErrorCode.INVALID_PARTITIONS, f"the topic has {len(topic.partitions)} partitions already"
            elif not request["validate_only"]:
                self._topics.add_partitions(topic, asked["count"])
            answers.append({"name": asked["name"], "error_code": error, "error_message": message})
        return {"results": answers}

    def _alter_configs(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        answers = []
        for asked in request["resources"]:
            error, message = self._altered(asked, validate_only=request["validate_only"])
            answers.append({"type": asked["type"], "name": asked["name"], "error_code": error, "error_message": message})
        return {"responses": answers}

    def _altered(self, asked: dict[str, Any], *, validate_only: bool) -> tuple[ErrorCode, str | None]:
        if asked["type"] != _TOPIC_RESOURCE:
            return ErrorCode.INVALID_REQUEST, "the cluster changes settings of topics only"
        topic = self._topics.named(asked["name"])
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        try:
            settings = topic.settings.changed(self._values(asked["configs"]))
            if not validate_only:
                self._topics.change_settings(topic, settings)
        except ConfigurationError as invalid:
            return ErrorCode.INVALID_CONFIG, str(invalid)
        return ErrorCode.NONE, None

    def _values(self, changes: list[dict[str, Any]]) -> dict[str, str | None]:
        """What an operation sets, or the default that it restores. Raises ConfigurationError for one of another kind."""
        defaults, values = self._topics.settings.described(), {}
        for change in changes:
            if change["operation"] not in {_SET, _DELETE}:
                raise ConfigurationError(f"{change['name']}: the cluster can set and delete settings, not append to them")
            values[change["name"]] = change["value"] if change["operation"] == _SET else defaults.get(change["name"])
        return values

    def _describe_configs(self, _node: int, _version: int, request: dict[str, Any]) -> Value:
        results = []
        for asked in request["resources"]:
            result = {"type": asked["type"], "name": asked["name"]}
            topic = self._topics.named(asked["name"]) if asked["type"] == _TOPIC_RESOURCE else None
            if topic is not None:
                default, names = self._topics.settings.described(), asked["names"]
                result["configs"] = [
                    {"name": name, "value": value, "source": _FROM_DEFAULT if value == default[name] else _FROM_TOPIC}
                    for name, value in topic.settings.described().items()
                    if names is None or name in names
                ]
            elif asked["type"] == _TOPIC_RESOURCE:
                result["error_code"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            results.append(result)
        return {"results": results}

    def _describe_cluster(self, _node: int, _version: int, _request: dict[str, Any]) -> Value:
        brokers = [{"id": node, "host": host, "port": port} for node, (host, port) in self._addresses.items()]
        return {
            "cluster_id": CLUSTER_ID,
            "controller_id": brokers[0]["id"],
            "brokers": brokers,
            "authorized_operations": metadata.OPERATIONS_NOT_ASKED,
        }

    # Records.

    def _produce(self, node_id: int, _version: int, request: dict[str, Any]) -> Value:
        return _per_partition(request, lambda topic, asked: self._produced(node_id, topic, asked))

    def _produced(self, node_id: int, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        answer = {"base_offset": -1, "log_append_time_ms": _NO_TIME, "log_start_offset": -1}
        topic, number = self._topics.named(name), asked["partition"]
        partition = None if topic is None else topic.partition(number)
        error = leader_error(partition, node_id)
        if topic is None or partition is None or error:
            return answer | {"error_code": error}
        try:
            batches = parse_batches(asked["records"] or b"")
        except ValueError:
            return answer | {"error_code": ErrorCode.CORRUPT_MESSAGE}
        error, first = self._appended(topic, partition, number, batches)
        log = topic.partitions[number].log
        if first is not None:
            stamp = first.max_timestamp if log.config.log_append_time else _NO_TIME
            answer |= {"base_offset": first.base_offset, "log_append_time_ms": stamp, "log_start_offset": log.log_start}
        return answer | {"error_code": error}

    def _appended(
        self, topic: Topic, partition: Partition, number: int, batches: tuple[Batch, ...]
    ) -> tuple[ErrorCode, Batch | RecentBatch | None]:
        """Appends batches up to the first that is rejected; the first one as it is in the log."""
        first: Batch | RecentBatch | None = None
        if topic.settings.compacted and any(record.key is None for batch in batches for record in records_of(batch)):
            return ErrorCode.INVALID_RECORD, None
        for batch in batches:
            log = topic.partitions[number].log
            stored: Batch | RecentBatch | None = idempotence.duplicate_of(log, batch)
            if stored is None:
                error = idempotence.rejection(log, batch)
                if error:
                    return error, None
                self._topics.append(topic, number, [batch])
                stored = topic.partitions[number].log.segments[-1].batches[-1]
            first = first or stored
        return ErrorCode.NONE, first

    def _delete_records(self, node_id: int, _version: int, request: dict[str, Any]) -> Value:
        return _per_partition(request, lambda topic, asked: self._deleted(node_id, topic, asked))

    def _deleted(self, node_id: int, name: str, asked: dict[str, Any]) -> dict[str, Any]:
        topic, number, before = self._topics.named(name), asked["partition"], asked["offset"]
        partition = None if topic is None else topic.partition(number)
        error = leader_error(partition, node_id)
        if topic is None or partition is None or error:
            return {"low_watermark": -1, "error_code": error}
        try:
            self._topics.delete_records(topic, number, partition.log.high_watermark if before < 0 else before)
        except ValueError:
            return {"low_watermark": -1, "error_code": ErrorCode.OFFSET_OUT_OF_RANGE}
        return {"low_watermark": topic.partitions[number].log.log_start}

    def _offset_for_leader_epoch(self, node_id: int, _version: int, request: dict[str, Any]) -> Value:
        def of_partition(name: str, asked: dict[str, Any]) -> dict[str, Any]:
            partition = self._topics.partition(name, asked["partition"])
            error = leader_error(partition, node_id, asked["current_leader_epoch"])
            if partition is None or error:
                return {"error_code": error, "leader_epoch": -1, "end_offset": -1}
            log = partition.log
            epoch, end = epochs.end_offset_of(log.lineage, asked["leader_epoch"], log.end_offset)
            return {"leader_epoch": epoch, "end_offset": end}

        return _per_partition(request, of_partition)


def _per_partition(request: dict[str, Any], answer: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Value:
    """The answer for each partition of each topic, with the partition's number."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition": asked["partition"], **answer(topic["name"], asked)} for asked in topic["partitions"]
                ],
            }
            for topic in request["topics"]
        ]
    }


def _described(topic: Topic) -> metadata.MetadataTopic:
    partitions = tuple(
        metadata.MetadataPartition(
            number,
            partition.broker_id,
            leader_epoch=partition.log.lineage[-1].epoch,
            replica_nodes=(partition.broker_id,),
            isr_nodes=(partition.broker_id,),
        )
        for number, partition in enumerate(topic.partitions)
    )
    return metadata.MetadataTopic(topic.name, partitions, topic_id=topic.id)
