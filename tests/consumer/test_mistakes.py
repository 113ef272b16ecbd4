"""The user's view of each typical mistake: one ConfigurationError, or one WARNING and all records from the broker.

The tables are to be read. What is in braces is a place of the world in which the mistakes are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.errors import ConfigurationError
from tests.support.embedded_topics import COUNT, TOPIC, fallbacks, from_store, read_to_ends
from tests.support.mistakes import MISTAKES, REFUSED, World, hide_packages, warnings, world

pytestmark = pytest.mark.embedded

WARNED: Mapping[str, str] = {
    "another host is allowed": (
        "direct fetch disabled for orders-0: URL host '{store}' is not in remote.storage.fetcher.allowed.hosts; the "
        "broker continues at offset 0 (forbidden-location)"
    ),
    "another path is allowed": (
        "direct fetch disabled for orders-0: the path of a URL on host '{store}' is not in "
        "remote.storage.fetcher.allowed.hosts; the broker continues at offset 0 (forbidden-location)"
    ),
    "http is not allowed": (
        "direct fetch disabled for orders-0: the URL is plain http; set remote.storage.fetcher.allow.http=true to "
        "permit it; the broker continues at offset 0 (forbidden-location)"
    ),
    "private addresses are not allowed": (
        "direct fetch disabled for orders-0: 127.0.0.1 resolves to a private address; set "
        "remote.storage.fetcher.allow.private.addresses=true to permit it; the broker continues at offset 0 "
        "(forbidden-location)"
    ),
    "the shim's port is closed": (
        "direct fetch disabled for orders-0: cannot connect to {closed}: connection refused; the broker continues at "
        "the beginning (peer-unreachable)"
    ),
    "the shim's name is unknown": (
        "direct fetch disabled for orders-0: cannot connect to shim.invalid:9192: the host name does not resolve; the "
        "broker continues at the beginning (peer-unreachable)"
    ),
    "the shim is a plain broker": (
        "direct fetch disabled for orders-0: {broker} does not announce direct fetch; fetch.remote.bootstrap.servers "
        "(or bootstrap.servers) must name the shim; the broker continues at the beginning (not-announced)"
    ),
    "the shim never answers": (
        "direct fetch disabled for orders-0: {silent} timed out; the broker continues at the beginning (location-unavailable)"
    ),
    "the layout is another": (
        "direct fetch disabled for orders-0: found no segments of topic orders; the store has LocalTieredStorage "
        "segments below kafka-tiered-storage/ (remote.storage.store.layout=local-tiered-storage) of topic orders; the "
        "broker continues at offset 0 (nothing-tiered)"
    ),
    "the store is another directory": (
        "direct fetch disabled for orders-0: found no segments of topic orders; the store has no objects there; the "
        "broker continues at offset 0 (nothing-tiered)"
    ),
    "the endpoint is closed": (
        "direct fetch disabled for orders-0: cannot reach {closed}, or it closed the connection "
        "(EndpointConnectionError); the broker continues at offset 0 (unavailable)"
    ),
    "the access key is unknown": (
        "direct fetch disabled for orders-0: {refused_host} answered 403 InvalidAccessKeyId; check the access key; the "
        "broker continues at offset 0 (access-denied)"
    ),
    "the credentials have expired": (
        "direct fetch disabled for orders-0: {expired_host} answered 400 ExpiredToken; the signed URL or the "
        "credentials have expired; the broker continues at offset 0 (expired)"
    ),
    "the bucket does not exist": (
        "direct fetch disabled for orders-0: {bucketless_host} answered 404 NoSuchBucket; check the bucket in the "
        "store's URL; the broker continues at offset 0 (unavailable)"
    ),
    "the bucket is in another region": (
        "direct fetch disabled for orders-0: {elsewhere_host} answered 400 AuthorizationHeaderMalformed; set s3.region "
        "to the region of the bucket; the broker continues at offset 0 (storage-error)"
    ),
    "the store's certificate is not trusted": (
        "direct fetch disabled for orders-0: cannot verify the certificate of {untrusted_host}; "
        "remote.storage.fetcher.ssl.ca.location must name the CA that signed it; the broker continues at offset 0 "
        "(storage-error)"
    ),
    "a package is missing": (
        "direct fetch is off: the plugin gs needs obstore: pip install 'kafka-remote-client[object-store]'"
    ),
}
"""The text of the one warning."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as started:
        yield started


def test_every_mistake_has_its_text() -> None:
    assert REFUSED.keys() | WARNED.keys() == MISTAKES.keys()
    assert not REFUSED.keys() & WARNED.keys()


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_that_can_be_known_is_refused(made: World, mistake: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Consumer(made.settings(MISTAKES[mistake]))
    assert str(refused.value) == made.filled(REFUSED[mistake])


@pytest.mark.parametrize("mistake", WARNED)
def test_each_mistake_is_one_warning_and_every_record_comes(
    made: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    hide_packages(monkeypatch, mistake)
    with Consumer(made.settings(MISTAKES[mistake])) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        assert len(read_to_ends(consumer)[TOPIC, 0]) == COUNT
        assert from_store(consumer) == 0
        counted = fallbacks(consumer)
    (line,) = warnings(caplog.records)
    assert line == made.filled(WARNED[mistake])
    assert [line.endswith(f"({cause})") for cause in counted] == ([] if "is off" in line else [True])
