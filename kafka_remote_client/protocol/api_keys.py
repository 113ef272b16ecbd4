"""Which messages exist on the wire, and how each version of them is laid out.

::

    api                          | key   | flexible from | spoken here
    Produce                      | 0     | 9             | header only
    Fetch                        | 1     | 12            | 4-18
    ListOffsets                  | 2     | 6             | 1-11
    Metadata                     | 3     | 9             | 1-13
    FindCoordinator              | 10    | 3             | header only
    SaslHandshake                | 17    | never         | 1
    ApiVersions                  | 18    | 3             | 0-4
    SaslAuthenticate             | 36    | 2             | 0-2
    DescribeCluster              | 60    | 0             | header only
    ShareFetch, ShareAcknowledge | 78, 79| 0             | header only
    direct remote fetch          | 32540 | never         | nothing: the key announces the dialect (docs/wire-format.md)

References: https://kafka.apache.org/protocol#protocol_api_keys, KIP-482.
"""

from __future__ import annotations

from enum import IntEnum

import attrs

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.wire import Buffer, Reader, Writer

__all__ = [
    "API_VERSIONS",
    "FETCH",
    "LIST_OFFSETS",
    "METADATA",
    "SASL_AUTHENTICATE",
    "SASL_HANDSHAKE",
    "Api",
    "ApiKey",
    "is_flexible",
]


class ApiKey(IntEnum):
    """The keys that this package knows by name."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36
    DESCRIBE_CLUSTER = 60
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    DIRECT_REMOTE_FETCH = 32540


_NEVER = 1 << 15
_FIRST_FLEXIBLE = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.SASL_HANDSHAKE: _NEVER,
    ApiKey.API_VERSIONS: 3,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.SHARE_GROUP_HEARTBEAT: 0,
    ApiKey.SHARE_FETCH: 0,
    ApiKey.SHARE_ACKNOWLEDGE: 0,
    ApiKey.DIRECT_REMOTE_FETCH: _NEVER,
}


def is_flexible(api_key: int, version: int) -> bool:
    """Whether that version of a message is flexible (KIP-482). Raises ProtocolError for a key that is not in the table."""
    try:
        return version >= _FIRST_FLEXIBLE[ApiKey(api_key)]
    except ValueError:
        raise ProtocolError(f"unknown API key {api_key}") from None


@attrs.frozen
class Api:
    """A message that this package encodes and decodes, in ``versions``."""

    key: ApiKey
    versions: range

    def reader(self, data: Buffer, version: int) -> Reader:
        """A reader for that version's layout. Raises ProtocolError outside ``versions``."""
        return Reader(data, flexible=self._flexible(version))

    def writer(self, version: int) -> Writer:
        """A writer for that version's layout. Raises ProtocolError outside ``versions``."""
        return Writer(flexible=self._flexible(version))

    def _flexible(self, version: int) -> bool:
        if version not in self.versions:
            raise ProtocolError(f"{self.key.name} version {version} is not one of {self.versions[0]} to {self.versions[-1]}")
        return is_flexible(self.key, version)


FETCH = Api(ApiKey.FETCH, range(4, 19))
LIST_OFFSETS = Api(ApiKey.LIST_OFFSETS, range(1, 12))
METADATA = Api(ApiKey.METADATA, range(1, 14))
API_VERSIONS = Api(ApiKey.API_VERSIONS, range(5))
SASL_HANDSHAKE = Api(ApiKey.SASL_HANDSHAKE, range(1, 2))
SASL_AUTHENTICATE = Api(ApiKey.SASL_AUTHENTICATE, range(3))
