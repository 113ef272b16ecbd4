"""For the tests of plugins and of whoever embeds the client: conformance suite, scripted origin, wrappers. Needs pytest."""

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
from kafka_remote_client.testing.origin import Exchange, ScriptedOrigin
from kafka_remote_client.testing.slow_fetcher import SlowFetcher

__all__ = [
    "Answer",
    "Ending",
    "Exchange",
    "FailingFetcher",
    "Failure",
    "Pace",
    "RemoteStorageFetcherTests",
    "ScriptedOrigin",
    "SlowFetcher",
    "error",
    "gzipped",
    "multipart",
    "other_bytes",
    "read_all",
    "redirect",
    "segment_metadata",
    "texts_of",
    "whole_object",
]
