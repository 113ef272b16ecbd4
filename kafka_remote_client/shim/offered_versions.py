"""The API versions that a shim offers to its clients, and how it announces itself.

A proxy must not pass on messages that it does not understand and that could contain the brokers' own addresses::

    api                          | offered to clients | why
    Fetch                        | up to 15           | 16 brings NodeEndpoints (KIP-951), and these frames are streamed
    Metadata                     | up to 13           | the newest whose broker list is known
    FindCoordinator              | up to 6            | the same
    DescribeCluster              | up to 2            | the same
    SaslHandshake                | 1                  | after version 0 come tokens that are no frames
    ShareFetch, ShareAcknowledge | not                | NodeEndpoints; share groups are out of KIP-1254's scope
    ShareGroupHeartbeat          | not                | who cannot fetch must not join: a member is given partitions
    Produce                      | all                | see kafka_remote_client.shim.rewrite

A request above its bound ends the connection, as a broker ends it for a version that it does not have.

References: KIP-35, KIP-511, KIP-951, docs/wire-format.md ("Announcement").
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import attrs

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import API_VERSIONS, ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, decode_response, encode_response
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.wire import Buffer, Reader

__all__ = ["announce", "check_version"]

_ANY = 1 << 15
_MAX_KEPT = 64
_MAX_KEPT_BYTES = 16 << 10
_OFFERED: Mapping[int, range] = {
    ApiKey.FETCH: range(16),
    ApiKey.METADATA: range(14),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.DESCRIBE_CLUSTER: range(3),
    ApiKey.SASL_HANDSHAKE: range(1, 2),
    ApiKey.SHARE_GROUP_HEARTBEAT: range(0),
    ApiKey.SHARE_FETCH: range(0),
    ApiKey.SHARE_ACKNOWLEDGE: range(0),
}


def check_version(head: RequestHead) -> None:
    """Raises ProtocolError for a request whose version is not offered."""
    offered = _OFFERED.get(head.api_key, range(_ANY))
    if head.api_version not in offered:
        raise ProtocolError(f"version {head.api_version} of API key {head.api_key} is not supported")


def announce(version: int, body: Buffer, overrides: Mapping[int, range]) -> bytes:
    """A broker's ApiVersions answer with the bounds of the module's table and the shim's announcements in it.

    ``overrides``: versions that the shim's strategy serves whatever the broker has. An answer with an error code is left as it
    is. Raises ProtocolError when the body does not parse.
    """
    announced = _kept if len(body) <= _MAX_KEPT_BYTES else _announced
    return announced(version, bytes(body), tuple(overrides.items()))


def _announced(version: int, body: bytes, given: tuple[tuple[int, range], ...]) -> bytes:
    if Reader(body).int16():
        return body
    overrides = dict(given)
    version = min(version, API_VERSIONS.versions[-1])  # a newer client got the answer in a version that it did not request
    response = decode_response(body, version)
    entries = (_bounded(entry, overrides) for entry in response.api_keys)
    offered = attrs.evolve(response, api_keys=tuple(entry for entry in entries if entry is not None))
    return encode_response(offered.announcing(), version)


_kept = lru_cache(maxsize=_MAX_KEPT)(_announced)
"""Brokers send the same answer to all clients, and to change it costs more than to forward ten requests."""


def _bounded(entry: ApiVersion, overrides: Mapping[int, range]) -> ApiVersion | None:
    """Returns ``None`` if no version is left. A range with its minimum above its maximum makes clients give up."""
    offered = overrides.get(entry.api_key)
    if offered is None:
        offered = _OFFERED.get(entry.api_key, range(_ANY))
        offered = range(max(entry.min_version, offered.start), min(entry.max_version + 1, offered.stop))
    return attrs.evolve(entry, min_version=offered[0], max_version=offered[-1]) if offered else None
