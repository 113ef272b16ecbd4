"""For the tests of plugins and applications: conformance suites, origin, TCP proxy, wrappers. Needs pytest."""

from kafka_remote_client.testing.answers import (
    Answer,
    Ending,
    Pace,
    error,
    gzipped,
    multipart,
    other_bytes,
    redirect,
    whole_object,
)
from kafka_remote_client.testing.failing_fetcher import FailingFetcher, Failure
from kafka_remote_client.testing.fetcher_tests import RemoteStorageFetcherTests, read_all, segment_metadata, texts_of
from kafka_remote_client.testing.layout_tests import MemoryStore, ObjectLayoutTests, StoredFiles, sample_segment
from kafka_remote_client.testing.scripted_origin import Exchange, ScriptedOrigin
from kafka_remote_client.testing.slow_fetcher import SlowFetcher
from kafka_remote_client.testing.store_model import (
    AnswerKind,
    FixedLatency,
    LognormalLatency,
    StoreAnswer,
    StoreModel,
    StoreSampler,
)
from kafka_remote_client.testing.tcp_proxy import Direction, Passage, PassageRecord, TcpFaultProxy

__all__ = [
    "Answer",
    "AnswerKind",
    "Direction",
    "Ending",
    "Exchange",
    "FailingFetcher",
    "Failure",
    "FixedLatency",
    "LognormalLatency",
    "MemoryStore",
    "ObjectLayoutTests",
    "Pace",
    "Passage",
    "PassageRecord",
    "RemoteStorageFetcherTests",
    "ScriptedOrigin",
    "SlowFetcher",
    "StoreAnswer",
    "StoreModel",
    "StoreSampler",
    "StoredFiles",
    "TcpFaultProxy",
    "error",
    "gzipped",
    "multipart",
    "other_bytes",
    "read_all",
    "redirect",
    "sample_segment",
    "segment_metadata",
    "texts_of",
    "whole_object",
]
