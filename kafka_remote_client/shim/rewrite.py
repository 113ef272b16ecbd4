"""Replaces the brokers' addresses by the shim's in the answers that name brokers, and copies every other byte.

Only the structures below are decoded and encoded again. All bytes before and after them are copied, so topic data, fields of
newer brokers and unknown tags are preserved.

::

    api             | versions | where the addresses are
    Produce         | 10-13    | root tag 0, NodeEndpoints [node id i32, host, port i32, rack, TAGS]
    Metadata        | 0-13     | [throttle i32 from 3], brokers [node id i32, host, port i32, rack from 1, TAGS]
    FindCoordinator | 0-6      | 0-3: [throttle i32, from 1], error i16, [message, from 1], node id i32, host, port i32
                    |          | 4-6: throttle i32, coordinators [key, node id i32, host, port i32, error i16, message, TAGS]
    DescribeCluster | 0-2      | throttle i32, error i16, message, [endpoint type i8 from 1], cluster id, controller i32,
                    |          | brokers [node id i32, host, port i32, rack, fenced i8 from 2, TAGS]

A Produce answer above version 13 passes as it is: Produce is never clamped, because brokers with transaction.version 2 expect
their transactional producers to speak the newest versions. Fetch names brokers from version 16 on, which the shim therefore
does not offer.

References: KIP-919 (endpoint type), KIP-951 (NodeEndpoints), https://kafka.apache.org/protocol#protocol_messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kafka_remote_client.protocol.api_keys import ApiKey, is_flexible
from kafka_remote_client.wire import Buffer, Reader, Writer

__all__ = ["Advertise", "names_brokers", "rewrite_addresses"]

Advertise: TypeAlias = Callable[[int, str, int], tuple[str, int]]
"""Node id, host and port of a broker to the host and port that its clients get."""

_NODE_ENDPOINTS = 0
_CONTROLLERS = 2
_REWRITTEN: Mapping[int, range] = {
    ApiKey.PRODUCE: range(10, 14),
    ApiKey.METADATA: range(14),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.DESCRIBE_CLUSTER: range(3),
}


def names_brokers(api_key: int, version: int) -> bool:
    """Returns whether an answer of that version may name brokers and needs :func:`rewrite_addresses`."""
    return version in _REWRITTEN.get(api_key, ())


def rewrite_addresses(api_key: int, version: int, body: Buffer, advertise: Advertise) -> bytes:
    """Returns a response body (after its header) with each broker's address replaced by ``advertise``.

    Raises ProtocolError when the body does not parse as far as the addresses reach.
    """
    return _Splice(body, is_flexible(api_key, version), version, advertise).rewrite(ApiKey(api_key))


class _Splice:
    """One pass over one body: ``_written`` has all bytes before ``_copied``; the rest is not processed yet."""

    def __init__(self, body: Buffer, flexible: bool, version: int, advertise: Advertise) -> None:
        self._body = memoryview(body)
        self._reader = Reader(self._body, flexible=flexible)
        self._writer = Writer(flexible=flexible)
        self._version = version
        self._advertise = advertise
        self._copied = 0

    def rewrite(self, api: ApiKey) -> bytes:
        {
            ApiKey.PRODUCE: self._produce,
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
        }[api]()
        self._writer.raw(self._body[self._copied :])
        return self._writer.getvalue()

    @property
    def _at(self) -> int:
        return len(self._body) - self._reader.remaining

    def _node(self) -> None:
        """Copies what was read up to here and replaces ``node id, host, port``, which come next."""
        reader, writer = self._reader, self._writer
        node_id = reader.int32()
        writer.raw(self._body[self._copied : self._at])
        host, port = reader.string(), reader.int32()
        host, port = self._advertise(node_id, host, port)
        writer.string(host)
        writer.int32(port)
        self._copied = self._at

    def _metadata(self) -> None:
        reader = self._reader
        if self._version >= 3:
            reader.int32()

        def broker() -> None:
            self._node()
            if self._version >= 1:
                reader.nullable_string()
            reader.tagged_fields()

        reader.array(broker)

    def _describe_cluster(self) -> None:
        reader = self._reader
        reader.int32()
        reader.int16()
        reader.nullable_string()
        if self._version >= 1 and reader.int8() == _CONTROLLERS:
            return  # the shim does not proxy the controllers' listeners
        reader.string()
        reader.int32()

        def broker() -> None:
            self._node()
            reader.nullable_string()
            if self._version >= 2:
                reader.boolean()
            reader.tagged_fields()

        reader.array(broker)

    def _find_coordinator(self) -> None:
        reader = self._reader
        if self._version >= 1:
            reader.int32()
        if self._version < 4:
            reader.int16()
            if self._version >= 1:
                reader.nullable_string()
            self._node()
            return

        def coordinator() -> None:
            reader.string()
            self._node()
            reader.int16()
            reader.nullable_string()
            reader.tagged_fields()

        reader.array(coordinator)

    def _produce(self) -> None:
        reader = self._reader

        def record_error() -> None:
            reader.int32()
            reader.nullable_string()
            reader.tagged_fields()

        def partition() -> None:
            reader.int32()
            reader.int16()
            for _ in range(3):  # base offset, append time, log start
                reader.int64()
            reader.array(record_error)
            reader.nullable_string()
            reader.tagged_fields()

        def topic() -> None:
            if self._version >= 13:
                reader.uuid()
            else:
                reader.string()
            reader.array(partition)
            reader.tagged_fields()

        reader.array(topic)
        reader.int32()
        self._writer.raw(self._body[: self._at])
        tags = dict(reader.tagged_fields())
        if _NODE_ENDPOINTS in tags:
            tags[_NODE_ENDPOINTS] = _node_endpoints(tags[_NODE_ENDPOINTS], self._advertise)
        self._writer.tagged_fields(tags)
        self._copied = self._at


def _node_endpoints(value: bytes, advertise: Advertise) -> bytes:
    """The array of a NodeEndpoints tag is laid out as the brokers of Metadata 9 and later are, behind the throttle time."""
    throttle = bytes(4)
    return rewrite_addresses(ApiKey.METADATA, 9, throttle + value, advertise)[len(throttle) :]
