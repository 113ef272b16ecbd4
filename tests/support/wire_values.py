"""Hypothesis strategies: messages that a given version can carry whole, so that decoding gives back the very value."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.protocol import api_versions as av
from kafka_remote_client.protocol import fetch as f
from kafka_remote_client.protocol import list_offsets as lo
from kafka_remote_client.protocol import metadata as md
from kafka_remote_client.protocol import sasl_authenticate as sa
from kafka_remote_client.protocol import sasl_handshake as sh
from kafka_remote_client.protocol.error_codes import ErrorCode

__all__ = ["api_versions", "fetch", "list_offsets", "metadata", "sasl_authenticate", "sasl_handshake"]

INT8 = st.integers(0, 1)
INT16 = st.integers(0, 0x7FFF)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
MILLISECONDS = st.integers(0, (1 << 31) - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
UUIDS = st.uuids(version=4) | st.just(UUID(int=0))
# kio knows Kafka's codes only.
ERRORS = st.sampled_from([int(code) for code in ErrorCode])
RAW_TAGS = st.dictionaries(st.integers(100, (1 << 31) - 1), st.binary(max_size=6), max_size=3)


def _many(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


def _since(version: int, first: int, strategy: st.SearchStrategy[Any], default: Any) -> st.SearchStrategy[Any]:
    return strategy if version >= first else st.just(default)


class _Values:
    """Strategies of one message; ``tags`` = with raw tagged fields where the version is flexible."""

    first_flexible: int

    def __init__(self, version: int, *, tags: bool) -> None:
        self.version = version
        self.tags = RAW_TAGS if tags and version >= self.first_flexible else st.just({})

    def since(self, first: int, strategy: st.SearchStrategy[Any], default: Any) -> st.SearchStrategy[Any]:
        return _since(self.version, first, strategy, default)


class fetch(_Values):  # noqa: N801 - named as the module whose values it makes
    first_flexible = 12

    def name(self) -> dict[str, Any]:
        by_id = self.version >= 13
        return {"topic": st.just("") if by_id else TEXT, "topic_id": UUIDS if by_id else st.just(UUID(int=0))}

    def request(self) -> st.SearchStrategy[f.FetchRequest]:
        partition = st.builds(
            f.FetchPartition,
            partition=INT32,
            fetch_offset=INT64,
            partition_max_bytes=INT32,
            current_leader_epoch=self.since(9, INT32, -1),
            last_fetched_epoch=self.since(12, INT32, -1),
            log_start_offset=self.since(5, INT64, -1),
            tags=self.tags,
        )
        forgotten = st.builds(f.ForgottenTopic, partitions=_many(INT32), **self.name(), tags=self.tags)
        return st.builds(
            f.FetchRequest,
            topics=_many(st.builds(f.FetchTopic, partitions=_many(partition), **self.name(), tags=self.tags)),
            max_wait_ms=MILLISECONDS,
            min_bytes=INT32,
            max_bytes=INT32,
            isolation_level=INT8,
            session_id=self.since(7, INT32, 0),
            session_epoch=self.since(7, INT32, -1),
            forgotten_topics=self.since(7, _many(forgotten), ()),
            rack_id=self.since(11, TEXT, ""),
            replica_id=st.just(-1) if self.version >= 15 else INT32,
            tags=self.tags,
        )

    def response(self) -> st.SearchStrategy[f.FetchResponse]:
        partition = st.builds(
            f.PartitionData,
            partition_index=INT32,
            error_code=ERRORS,
            high_watermark=INT64,
            last_stable_offset=INT64,
            log_start_offset=self.since(5, INT64, -1),
            aborted_transactions=st.none() | _many(st.builds(AbortedTransaction, INT64, INT64)),
            preferred_read_replica=self.since(11, INT32, -1),
            records=st.none() | st.binary(max_size=20),
            tags=self.tags,
        )
        return st.builds(
            f.FetchResponse,
            responses=_many(st.builds(f.FetchTopicResponse, partitions=_many(partition), **self.name(), tags=self.tags)),
            throttle_time_ms=MILLISECONDS,
            error_code=self.since(7, ERRORS, 0),
            session_id=self.since(7, INT32, 0),
            tags=self.tags,
        )


class list_offsets(_Values):  # noqa: N801 - named as the module whose values it makes
    first_flexible = 6

    def request(self) -> st.SearchStrategy[lo.ListOffsetsRequest]:
        partition = st.builds(
            lo.ListOffsetsPartition,
            partition_index=INT32,
            timestamp=INT64,
            current_leader_epoch=self.since(4, INT32, -1),
            tags=self.tags,
        )
        return st.builds(
            lo.ListOffsetsRequest,
            topics=_many(st.builds(lo.ListOffsetsTopic, name=TEXT, partitions=_many(partition), tags=self.tags)),
            isolation_level=self.since(2, INT8, 0),
            timeout_ms=self.since(10, MILLISECONDS, 30_000),
            replica_id=INT32,
            tags=self.tags,
        )

    def response(self) -> st.SearchStrategy[lo.ListOffsetsResponse]:
        partition = st.builds(
            lo.ListOffsetsPartitionResponse,
            partition_index=INT32,
            error_code=ERRORS,
            timestamp=INT64,
            offset=INT64,
            leader_epoch=self.since(4, INT32, -1),
            tags=self.tags,
        )
        return st.builds(
            lo.ListOffsetsResponse,
            topics=_many(st.builds(lo.ListOffsetsTopicResponse, name=TEXT, partitions=_many(partition), tags=self.tags)),
            throttle_time_ms=self.since(2, MILLISECONDS, 0),
            tags=self.tags,
        )


class metadata(_Values):  # noqa: N801 - named as the module whose values it makes
    first_flexible = 9

    def request(self) -> st.SearchStrategy[md.MetadataRequest]:
        name = st.none() | TEXT if self.version >= 10 else TEXT
        topic = st.builds(md.MetadataRequestTopic, name=name, topic_id=self.since(10, UUIDS, UUID(int=0)), tags=self.tags)
        return st.builds(
            md.MetadataRequest,
            topics=st.none() | _many(topic),
            allow_auto_topic_creation=self.since(4, st.booleans(), True),
            include_cluster_authorized_operations=st.booleans() if 8 <= self.version <= 10 else st.just(False),
            include_topic_authorized_operations=self.since(8, st.booleans(), False),
            tags=self.tags,
        )

    def response(self) -> st.SearchStrategy[md.MetadataResponse]:
        broker = st.builds(md.MetadataBroker, node_id=INT32, host=TEXT, port=INT32, rack=st.none() | TEXT, tags=self.tags)
        partition = st.builds(
            md.MetadataPartition,
            partition_index=INT32,
            leader_id=INT32,
            error_code=ERRORS,
            leader_epoch=self.since(7, INT32, -1),
            replica_nodes=_many(INT32),
            isr_nodes=_many(INT32),
            offline_replicas=self.since(5, _many(INT32), ()),
            tags=self.tags,
        )
        topic = st.builds(
            md.MetadataTopic,
            name=st.none() | TEXT if self.version >= 12 else TEXT,
            partitions=_many(partition),
            error_code=ERRORS,
            topic_id=self.since(10, UUIDS, UUID(int=0)),
            is_internal=st.booleans(),
            topic_authorized_operations=self.since(8, INT32, md.OPERATIONS_NOT_ASKED),
            tags=self.tags,
        )
        return st.builds(
            md.MetadataResponse,
            brokers=_many(broker),
            topics=_many(topic),
            cluster_id=self.since(2, st.none() | TEXT, None),
            controller_id=INT32,
            throttle_time_ms=self.since(3, MILLISECONDS, 0),
            cluster_authorized_operations=INT32 if 8 <= self.version <= 10 else st.just(md.OPERATIONS_NOT_ASKED),
            error_code=self.since(13, ERRORS, 0),
            tags=self.tags,
        )


class api_versions(_Values):  # noqa: N801 - named as the module whose values it makes
    first_flexible = 3

    def request(self) -> st.SearchStrategy[av.ApiVersionsRequest]:
        return st.builds(
            av.ApiVersionsRequest,
            client_software_name=self.since(3, TEXT, ""),
            client_software_version=self.since(3, TEXT, ""),
            tags=self.tags,
        )

    def response(self) -> st.SearchStrategy[av.ApiVersionsResponse]:
        key = st.builds(av.ApiVersion, api_key=INT16, min_version=INT16, max_version=INT16, tags=self.tags)
        feature = st.builds(av.SupportedFeature, name=TEXT, min_version=INT16, max_version=INT16, tags=self.tags)
        return st.builds(
            av.ApiVersionsResponse,
            # 35 has a meaning of its own: the body is then of version 0.
            error_code=ERRORS.filter(lambda code: code != ErrorCode.UNSUPPORTED_VERSION),
            api_keys=_many(key),
            throttle_time_ms=self.since(1, MILLISECONDS, 0),
            supported_features=self.since(3, _many(feature), ()),
            tags=self.tags,
        )


class sasl_handshake(_Values):  # noqa: N801 - named as the module whose values it makes
    first_flexible = 2

    def request(self) -> st.SearchStrategy[sh.SaslHandshakeRequest]:
        return st.builds(sh.SaslHandshakeRequest, mechanism=TEXT)

    def response(self) -> st.SearchStrategy[sh.SaslHandshakeResponse]:
        return st.builds(sh.SaslHandshakeResponse, error_code=ERRORS, mechanisms=_many(TEXT))


class sasl_authenticate(_Values):  # noqa: N801 - named as the module whose values it makes
    first_flexible = 2

    def request(self) -> st.SearchStrategy[sa.SaslAuthenticateRequest]:
        return st.builds(sa.SaslAuthenticateRequest, auth_bytes=st.binary(max_size=40), tags=self.tags)

    def response(self) -> st.SearchStrategy[sa.SaslAuthenticateResponse]:
        return st.builds(
            sa.SaslAuthenticateResponse,
            error_code=ERRORS,
            error_message=st.none() | TEXT,
            auth_bytes=st.binary(max_size=40),
            session_lifetime_ms=self.since(1, MILLISECONDS, 0),  # kio makes a time span of it
            tags=self.tags,
        )
