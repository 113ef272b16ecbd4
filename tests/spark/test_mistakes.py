"""The error or the one WARNING that a Spark user gets for each typical mistake, by the driver's own code.

The settings are the consumer's, under the same names. ``remote.onFallback=fail`` turns each warning into an error. The tables
are meant to be read; texts in braces are places of the environment in which the mistakes are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange
from kafka_remote_client.spark.options.source_options import option_texts, parse_options
from kafka_remote_client.spark.planning.batch_plan import learn_segments
from kafka_remote_client.spark.reading.task_engine import TaskEngines
from kafka_remote_client.spark.reading.tier_health import TierHealth
from tests.support.embedded_topics import COUNT, TOPIC
from tests.support.mistakes import MISTAKES, REFUSED, World, hide_packages, warnings, world

pytestmark = pytest.mark.embedded

WARNED: Mapping[str, str] = {
    "another host is allowed": (
        "the brokers serve tiered records of this query, because the tier cannot be read: URL host '{store}' is not in "
        "remote.storage.fetcher.allowed.hosts"
    ),
    "another path is allowed": (
        "the brokers serve tiered records of this query, because the tier cannot be read: the path of a URL on host "
        "'{store}' is not in remote.storage.fetcher.allowed.hosts"
    ),
    "http is not allowed": (
        "the brokers serve tiered records of this query, because the tier cannot be read: the URL is plain http; set "
        "remote.storage.fetcher.allow.http=true to permit it"
    ),
    "private addresses are not allowed": (
        "the brokers serve tiered records of this query, because the tier cannot be read: 127.0.0.1 resolves to a "
        "private address; set remote.storage.fetcher.allow.private.addresses=true to permit it"
    ),
    "the shim's port is closed": (
        "the brokers serve tiered records of this query, because the tier cannot be read: cannot connect to {closed}: "
        "connection refused"
    ),
    "the shim's name is unknown": (
        "the brokers serve tiered records of this query, because the tier cannot be read: cannot connect to "
        "shim.invalid:9192: the host name does not resolve"
    ),
    "the shim is a plain broker": (
        "the brokers serve tiered records of this query, because the tier cannot be read: {broker} does not announce "
        "direct fetch; fetch.remote.bootstrap.servers (or bootstrap.servers) must name the shim"
    ),
    "the shim never answers": (
        "the brokers serve tiered records of this query, because the tier cannot be read: {silent} timed out"
    ),
    "the layout is another": (
        "the brokers serve tiered records of this query, because the tier cannot be read: found no segments of topic "
        "orders; the store has LocalTieredStorage segments below kafka-tiered-storage/ "
        "(remote.storage.store.layout=local-tiered-storage) of topic orders"
    ),
    "the store is another directory": (
        "the brokers serve tiered records of this query, because the tier cannot be read: found no segments of topic "
        "orders; the store has no objects there"
    ),
    "the endpoint is closed": (
        "the brokers serve tiered records of this query, because the tier cannot be read: cannot reach {closed}, or it "
        "closed the connection (EndpointConnectionError)"
    ),
    "the access key is unknown": (
        "the brokers serve tiered records of this query, because the tier cannot be read: {refused_host} answered 403 "
        "InvalidAccessKeyId; check the access key"
    ),
    "the credentials have expired": (
        "the brokers serve tiered records of this query, because the tier cannot be read: {expired_host} answered 400 "
        "ExpiredToken; the signed URL or the credentials have expired"
    ),
    "the bucket does not exist": (
        "the brokers serve tiered records of this query, because the tier cannot be read: {bucketless_host} answered "
        "404 NoSuchBucket; check the bucket in the store's URL"
    ),
    "the bucket is in another region": (
        "the brokers serve tiered records of this query, because the tier cannot be read: {elsewhere_host} answered "
        "400 AuthorizationHeaderMalformed; set s3.region to the region of the bucket"
    ),
    "the store's certificate is not trusted": (
        "the brokers serve tiered records of this query, because the tier cannot be read: cannot verify the "
        "certificate of {untrusted_host}; remote.storage.fetcher.ssl.ca.location must name the CA that signed it"
    ),
    "a package is missing": (
        "the brokers serve tiered records of this query, because the tier cannot be read: the plugin gs needs obstore: "
        "pip install 'kafka-remote-client[object-store]'"
    ),
}
"""The text of the driver's one warning."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as started:
        yield started


def planned(made: World, mistake: str, **more: str) -> Sequence[OffsetRange]:
    """Returns what the driver learns of the topic before any task starts."""
    settings = made.settings(MISTAKES[mistake])
    own = {name: value for name, value in settings.items() if name.startswith(("fetch.remote.", "remote."))}
    options = {**option_texts(own), "kafka.bootstrap.servers": str(settings["bootstrap.servers"]), "subscribe": TOPIC, **more}
    ranges, engines = [OffsetRange(TopicPartition(TOPIC, 0), 0, COUNT)], TaskEngines()
    try:
        return learn_segments(parse_options(options), ranges, engines=engines, health=TierHealth())
    finally:
        engines.close()


def test_every_mistake_has_its_text() -> None:
    assert REFUSED.keys() | WARNED.keys() == MISTAKES.keys()
    assert not REFUSED.keys() & WARNED.keys()


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_mistake_that_can_be_detected_is_refused(made: World, mistake: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        planned(made, mistake)
    assert str(refused.value) == made.filled(REFUSED[mistake])


@pytest.mark.parametrize("mistake", WARNED)
def test_each_mistake_gives_one_warning_and_the_brokers_serve(
    made: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    hide_packages(monkeypatch, mistake)
    (found,) = planned(made, mistake)
    (line,) = warnings(caplog.records)
    assert line == made.filled(WARNED[mistake])
    assert line.endswith(f": {found.tier_failure}")


@pytest.mark.parametrize("mistake", WARNED)
def test_a_query_that_may_not_fall_back_fails_with_the_same_text(
    made: World, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    hide_packages(monkeypatch, mistake)
    with pytest.raises(TierUnavailableError) as failed:
        planned(made, mistake, **{"remote.onFallback": "fail"})
    why = made.filled(WARNED[mistake]).partition("cannot be read: ")[2]
    assert str(failed.value) == f"cannot read from the tier: {why}; remote.onFallback=broker reads from the brokers"
