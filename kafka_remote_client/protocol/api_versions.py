"""ApiVersions, versions 0-4: which messages a peer speaks, and whether it announces direct remote fetch.

::

    request   v3+ ClientSoftwareName STRING | ClientSoftwareVersion STRING | TAGS
    response  ErrorCode i16 | ApiKeys [ApiKey i16 | MinVersion i16 | MaxVersion i16 | TAGS v3+]
              | v1+ ThrottleTimeMs i32 | TAGS v3+: 0 SupportedFeatures [Name STRING | MinVersion i16 | MaxVersion i16 | TAGS]

A peer that does not know the version asked for answers with error 35 and a body of version 0 (KIP-511), whatever was asked;
:func:`decode_response` follows that. The other tags of the response are kept raw.

A peer that speaks dialect "tagged-1" says so twice: by the private API key 32540, which also fits versions 0-2, and by the
feature ``direct.remote.fetch``, which survives a proxy that drops unknown keys. Either is enough. Version 2 of the feature, or
version 1 of the API key, says that one Fetch may ask for the locations of several partitions. Version 3 of the feature, or
version 2 of the API key, says that the peer grants positions of 64 bits to a client that understands them. Version 4 of the
feature, or version 3 of the API key, says that the peer lists the segments of partitions.

References: KIP-35, KIP-482, KIP-511, KIP-584, docs/wire-format.md.
"""

from __future__ import annotations

from functools import partial

import attrs

from kafka_remote_client.protocol.api_keys import API_VERSIONS, ApiKey
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.message_layout import MessageLayout
from kafka_remote_client.wire import NO_TAGS, Buffer, Reader, TaggedFields, Writer, tag_numbers

__all__ = [
    "DIRECT_FETCH_FEATURE",
    "DIRECT_FETCH_VERSION",
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "SupportedFeature",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]

DIRECT_FETCH_FEATURE = "direct.remote.fetch"
DIRECT_FETCH_VERSION = 1
MANY_PARTITIONS_VERSION = 2
LARGE_POSITIONS_VERSION = 3
SEGMENT_LISTS_VERSION = 4

_SUPPORTED_FEATURES = 0
_FIRST_WITH_TAGS = 3


@attrs.frozen
class ApiVersionsRequest:
    """The client; both names are empty below version 3."""

    client_software_name: str = ""
    client_software_version: str = ""
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ApiVersion:
    """The versions of one message that the peer speaks, both inclusive."""

    api_key: int
    min_version: int
    max_version: int
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class SupportedFeature:
    """A feature and its levels, both inclusive. A minimum of 0 is not shown below version 4 (KAFKA-17011)."""

    name: str
    min_version: int
    max_version: int
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ApiVersionsResponse:
    """What the peer speaks. ``tags`` holds every tagged field but SupportedFeatures."""

    error_code: int = ErrorCode.NONE
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeature, ...] = ()
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)

    def best_version(self, api_key: int, versions: range) -> int | None:
        """The highest of ``versions`` that the peer speaks too; ``None`` when there is none."""
        for entry in self.api_keys:
            if entry.api_key == api_key:
                best = min(entry.max_version, versions[-1])
                return best if best >= max(entry.min_version, versions[0]) else None
        return None

    @property
    def announces_direct_fetch(self) -> bool:
        """Whether the peer speaks the dialect: only then may a location be asked for."""
        return self._announces(0, DIRECT_FETCH_VERSION)

    @property
    def announces_many_partitions(self) -> bool:
        """Whether one Fetch may ask the peer for the locations of several partitions, and answers may be pending."""
        return self._announces(1, MANY_PARTITIONS_VERSION)

    @property
    def announces_large_positions(self) -> bool:
        """Whether the peer grants positions of 64 bits to a client that says that it understands them."""
        return self._announces(2, LARGE_POSITIONS_VERSION)

    @property
    def announces_segment_lists(self) -> bool:
        """Whether the peer lists the segments of partitions for a plan."""
        return self._announces(3, SEGMENT_LISTS_VERSION)

    def _announces(self, key_version: int, feature_version: int) -> bool:
        """Whether the peer announces that version of the API key, or that version of the feature."""
        return any(
            feature.name == DIRECT_FETCH_FEATURE and feature.min_version <= feature_version <= feature.max_version
            for feature in self.supported_features
        ) or any(
            entry.api_key == ApiKey.DIRECT_REMOTE_FETCH and entry.min_version <= key_version <= entry.max_version
            for entry in self.api_keys
        )

    def announcing(self) -> ApiVersionsResponse:
        """The same answer with both announcements of the dialect in it."""
        keys = tuple(entry for entry in self.api_keys if entry.api_key != ApiKey.DIRECT_REMOTE_FETCH)
        features = tuple(feature for feature in self.supported_features if feature.name != DIRECT_FETCH_FEATURE)
        key = ApiVersion(ApiKey.DIRECT_REMOTE_FETCH, 0, 3)
        feature = SupportedFeature(DIRECT_FETCH_FEATURE, DIRECT_FETCH_VERSION, SEGMENT_LISTS_VERSION)
        return attrs.evolve(self, api_keys=(*keys, key), supported_features=(*features, feature))


_REQUEST = MessageLayout(API_VERSIONS, ApiVersionsRequest, "3+ client_software_name string | 3+ client_software_version string")
_RESPONSE = MessageLayout(
    API_VERSIONS,
    ApiVersionsResponse,
    "error_code int16 | api_keys [api_key int16 | min_version int16 | max_version int16] | 1+ throttle_time_ms int32",
    api_keys=ApiVersion,
)
encode_request, decode_request = _REQUEST.encode, _REQUEST.decode


def encode_response(response: ApiVersionsResponse, version: int) -> bytes:
    """The body of the response; below version 3 its features and tags are left out, as a broker does.

    Raises ProtocolError for a version outside 0-4.
    """
    if version < _FIRST_WITH_TAGS:
        keys = tuple(attrs.evolve(entry, tags=NO_TAGS) for entry in response.api_keys)
        return _RESPONSE.encode(attrs.evolve(response, api_keys=keys, tags=NO_TAGS), version)
    tags = dict(response.tags)
    if response.supported_features:
        features = Writer(flexible=True)
        features.array(response.supported_features, partial(_write_feature, features))
        tags[_SUPPORTED_FEATURES] = features.getvalue()
    return _RESPONSE.encode(attrs.evolve(response, tags=tags), version)


def decode_response(data: Buffer, version: int) -> ApiVersionsResponse:
    """The answer to a request of that version. Raises ProtocolError."""
    if version > 0 and Reader(data).int16() == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    response = _RESPONSE.decode(data, version)
    if _SUPPORTED_FEATURES not in response.tags:
        return response
    tags = dict(response.tags)
    nested = Reader(tags.pop(_SUPPORTED_FEATURES), flexible=True)
    features = nested.array(partial(_read_feature, nested))
    nested.expect_end()
    return attrs.evolve(response, supported_features=features, tags=tags)


def _read_feature(reader: Reader) -> SupportedFeature:
    return SupportedFeature(reader.string(), reader.int16(), reader.int16(), reader.tagged_fields())


def _write_feature(writer: Writer, feature: SupportedFeature) -> None:
    writer.string(feature.name)
    writer.int16(feature.min_version)
    writer.int16(feature.max_version)
    writer.tagged_fields(feature.tags)
