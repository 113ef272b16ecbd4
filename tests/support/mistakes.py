"""Typical mistakes in the settings of a client, their remedies, and a small environment in which to make them.

A mistake is an overlay of settings: those of a consumer, and of the Spark source under the same names. ``None`` removes a
setting. Texts in braces are addresses in the environment. ``test_mistakes.py`` pins the user's messages, next to the tests of
the consumer, of the Spark source and of the command line; a test compares docs/troubleshooting.md with these tables.
"""

from __future__ import annotations

import logging
import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.testing.answers import error
from kafka_remote_client.testing.scripted_origin import ScriptedOrigin
from tests.support.embedded_topics import COUNT, TOPIC, direct_settings, fill_topic, small_cluster
from tests.support.ports import HOST, free_ports
from tests.support.silent_peer import SilentPeer

__all__ = ["MISTAKES", "REFUSED", "Mistake", "World", "hide_packages", "warnings", "world"]

REFUSED: Mapping[str, str] = {
    "no host is allowed": (
        "fetcher 'presigned' needs remote.storage.fetcher.allowed.hosts: the hosts of the stores that it may read"
    ),
    "the CA file is missing": "remote.storage.fetcher.ssl.ca.location cannot be read as PEM",
    "the shim's address is malformed": "fetch.remote.bootstrap.servers: 'shim:port' is not host:port",
    "the fetcher is misspelled": (
        "remote.storage.fetcher.class: unknown fetcher 'presinged'; known fetchers: "
        "local, memory, object_store, presigned, requests, s3"
    ),
    "the setting that names the fetcher is misspelled": (
        "unknown setting: remote.storage.fetcher.clas; did you mean remote.storage.fetcher.class?"
    ),
    "a setting of the fetcher is misspelled": (
        "unknown setting of fetcher 'presigned': remote.storage.fetcher.alowed.hosts; did you mean "
        "remote.storage.fetcher.allowed.hosts?"
    ),
    "a setting is misspelled": "unknown setting: fetch.remote.retires; did you mean fetch.remote.retries?",
    "a number is out of bounds": "fetch.remote.retries must be a whole number between 0 and 10, such as 2",
    "a number is a word": "fetch.remote.retries must be a whole number between 0 and 10, such as 2",
    "a switch is neither true nor false": "fetch.remote.allow.offset.gaps must be true or false",
    "a class path is not permitted": "remote.storage.fetcher.class.path needs fetch.remote.allow.class.path=true",
    "the location source is unknown": "fetch.remote.location.source must be one of: broker, metadata-topic, listing",
    "no store is named": "fetch.remote.location.source=listing needs remote.storage.store.url",
    "the store's URL has another scheme": "the store URL must start with one of: az://, file://, gs://, s3://, s3+obstore://",
    "the layout is unknown": "unknown layout 'avien'; known layouts: aiven, local-tiered-storage",
    "a key prefix is given to a layout without": (
        "the layout local-tiered-storage supports no key prefix and no encryption keys; remove them"
    ),
    "an encryption key has no id": "remote.storage.store.encryption.keys must be KEYID=PRIVATE_KEY_FILE",
    "http is not allowed for the endpoint": (
        "the S3 endpoint is plain http; set remote.storage.fetcher.allow.http=true to permit it"
    ),
}
"""The error text for an invalid configuration, which is the same in a consumer and in a query."""

_FETCHER = "remote.storage.fetcher."
_LISTING: Mapping[str, object] = {
    "fetch.remote.location.source": "listing",
    "remote.storage.fetcher.class": None,
    "remote.storage.fetcher.allowed.hosts": None,
    "remote.storage.fetcher.allow.http": None,
    "remote.storage.fetcher.allow.private.addresses": None,
}
_S3: Mapping[str, object] = {
    **_LISTING,
    "remote.storage.store.url": "s3://tier",
    "remote.storage.fetcher.s3.path.style": True,
    "remote.storage.fetcher.s3.region": "us-east-1",
    "remote.storage.fetcher.allow.http": True,
}
_CERTIFICATE = Path(__file__).parents[1] / "fetchers" / "tls" / "self-signed.pem"


@attrs.frozen
class Mistake:
    """``settings``: override the working ones. ``remedy``: what the user must change."""

    settings: Mapping[str, object]
    remedy: str


def _s3(endpoint: str) -> dict[str, object]:
    return {**_S3, f"{_FETCHER}s3.endpoint.url": endpoint}


MISTAKES: Mapping[str, Mistake] = {
    "another host is allowed": Mistake(
        {f"{_FETCHER}allowed.hosts": "store.example"}, "Add the host and port of the store to the list."
    ),
    "another path is allowed": Mistake(
        {f"{_FETCHER}allowed.hosts": "{store}/elsewhere"}, "Correct the path behind the host, or leave it out."
    ),
    "no host is allowed": Mistake({f"{_FETCHER}allowed.hosts": None}, "List the hosts of the stores that may be read."),
    "http is not allowed": Mistake({f"{_FETCHER}allow.http": False}, "Give the store a certificate, or permit plain http."),
    "private addresses are not allowed": Mistake(
        {f"{_FETCHER}allow.private.addresses": False}, "Permit private addresses where the store is in the same network."
    ),
    "the CA file is missing": Mistake({f"{_FETCHER}ssl.ca.location": "{missing}"}, "Correct the path."),
    "the shim's port is closed": Mistake(
        {"fetch.remote.bootstrap.servers": "{closed}"}, "Start the shim, or correct its address."
    ),
    "the shim's name is unknown": Mistake({"fetch.remote.bootstrap.servers": "shim.invalid:9192"}, "Correct the host name."),
    "the shim is a plain broker": Mistake(
        {"fetch.remote.bootstrap.servers": "{broker}"}, "Name the shim, and the brokers in bootstrap.servers alone."
    ),
    "the shim never answers": Mistake(
        {"fetch.remote.bootstrap.servers": "{silent}", "fetch.remote.location.timeout.ms": 500},
        "Look at the shim and at the network between.",
    ),
    "the shim's address is malformed": Mistake({"fetch.remote.bootstrap.servers": "shim:port"}, "Write host:port."),
    "the fetcher is misspelled": Mistake({f"{_FETCHER}class": "presinged"}, "Use one of the names."),
    "a package is missing": Mistake({**_LISTING, "remote.storage.store.url": "gs://tier"}, "Run the command that is shown."),
    "a setting of the fetcher is misspelled": Mistake(
        {f"{_FETCHER}alowed.hosts": "store.example"}, "Use the name that is shown."
    ),
    "the setting that names the fetcher is misspelled": Mistake(
        {"remote.storage.fetcher.class": None, "remote.storage.fetcher.clas": "presigned"}, "Use the name that is shown."
    ),
    "a setting is misspelled": Mistake({"fetch.remote.retires": 3}, "Use the name that is shown."),
    "a number is out of bounds": Mistake({"fetch.remote.retries": 99}, "Choose a number within the bounds."),
    "a number is a word": Mistake({"fetch.remote.retries": "many"}, "Write a whole number."),
    "a switch is neither true nor false": Mistake({"fetch.remote.allow.offset.gaps": "yes"}, "Write true or false."),
    "a class path is not permitted": Mistake(
        {f"{_FETCHER}class.path": "{directory}"}, "Permit it, or install the fetcher as a package."
    ),
    "the location source is unknown": Mistake({"fetch.remote.location.source": "shim"}, "Use one of the names."),
    "no store is named": Mistake({**_LISTING}, "Name the store."),
    "the store's URL has another scheme": Mistake(
        {**_LISTING, "remote.storage.store.url": "ftp://tier"}, "Use one of the schemes."
    ),
    "the layout is unknown": Mistake(
        {**_LISTING, "remote.storage.store.url": "{tier}", "remote.storage.store.layout": "avien"}, "Use one of the names."
    ),
    "the layout is another": Mistake(
        {**_LISTING, "remote.storage.store.url": "{tier}", "remote.storage.store.layout": "aiven"},
        "Use the layout that is shown.",
    ),
    "the store is another directory": Mistake(
        {**_LISTING, "remote.storage.store.url": "{directory}"}, "Correct the store's URL."
    ),
    "a key prefix is given to a layout without": Mistake(
        {**_LISTING, "remote.storage.store.url": "{tier}", "remote.storage.store.key.prefix": "prod/"},
        "Remove the prefix, or use the layout aiven.",
    ),
    "an encryption key has no id": Mistake(
        {
            **_LISTING,
            "remote.storage.store.url": "{tier}",
            "remote.storage.store.layout": "aiven",
            "remote.storage.store.encryption.keys": "key.pem",
        },
        "Write KEYID=FILE.",
    ),
    "http is not allowed for the endpoint": Mistake(
        {**_s3("{s3}"), f"{_FETCHER}allow.http": None}, "Use https, or permit plain http."
    ),
    "the endpoint is closed": Mistake(_s3("http://{closed}"), "Correct the endpoint, or start the store."),
    "the access key is unknown": Mistake(_s3("{refused}"), "Correct the access key."),
    "the credentials have expired": Mistake(_s3("{expired}"), "Get new credentials."),
    "the bucket does not exist": Mistake(_s3("{bucketless}"), "Correct the bucket in the store's URL."),
    "the bucket is in another region": Mistake(_s3("{elsewhere}"), "Set the region of the bucket."),
    "the store's certificate is not trusted": Mistake(_s3("{untrusted}"), "Name the CA that signed it."),
}

_ANSWERS = {
    "refused": (403, "InvalidAccessKeyId"),
    "expired": (400, "ExpiredToken"),
    "bucketless": (404, "NoSuchBucket"),
    "elsewhere": (400, "AuthorizationHeaderMalformed"),
}
"""The answers of the stores, by the placeholder of the store."""


@attrs.frozen
class World:
    """A cluster with tiered records of ``TOPIC``, stores that fail, and ``places``: the values of the texts in braces."""

    cluster: EmbeddedCluster
    places: Mapping[str, str]

    def filled(self, text: str) -> str:
        """The text with the places in it."""
        return text.format(**self.places)

    def settings(self, mistake: Mistake) -> dict[str, object]:
        """A consumer's settings with the mistake."""
        working = {**direct_settings(self.cluster), **_QUICK}
        made = {**working, **mistake.settings}
        filled = {name: self.filled(value) if isinstance(value, str) else value for name, value in made.items()}
        return {name: value for name, value in filled.items() if value is not None}


_WITH_OBSTORE = {"kafka_remote_fetchers.object_store", "kafka_remote_fetchers._obstore"}
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "mistaken", "AWS_SECRET_ACCESS_KEY": "mistaken", "AWS_EC2_METADATA_DISABLED": "true"}
_QUICK: Mapping[str, object] = {"fetch.remote.retries": 0}


@contextmanager
def world(directory: Path) -> Iterator[World]:
    """Starts all of it; ``directory`` is empty."""
    empty = directory / "empty"
    empty.mkdir()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_CERTIFICATE)
    with ExitStack() as running, pytest.MonkeyPatch.context() as environment:
        for name, value in _CREDENTIALS.items():
            environment.setenv(name, value)
        cluster = running.enter_context(small_cluster(directory / "tier"))
        fill_topic(cluster, TOPIC, COUNT)
        stores = {
            place: running.enter_context(ScriptedOrigin(otherwise=error(status, code)))
            for place, (status, code) in _ANSWERS.items()
        }
        stores["untrusted"] = running.enter_context(ScriptedOrigin(ssl_context=context))
        silent = running.enter_context(SilentPeer())
        places = {
            **{place: store.url for place, store in stores.items()},
            **{f"{place}_host": store.authority for place, store in stores.items()},
            "shim": cluster.bootstrap_servers,
            "store": cluster.origin_url.partition("//")[2],
            "broker": cluster.broker_bootstrap_servers,
            "tier": cluster.directory.resolve().as_uri(),
            "directory": empty.as_uri(),
            "empty": str(empty),
            "missing": str(empty / "missing.pem"),
            "closed": f"{HOST}:{free_ports(1)[0]}",
            "silent": silent.address,
            "s3": stores["refused"].url,
        }
        yield World(cluster, places)


def hide_packages(monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    """Hides the packages of the extra if the mistake is that it is not installed."""
    if mistake == "a package is missing":
        for name in [name for name in sys.modules if name.startswith("obstore.") or name in _WITH_OBSTORE]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "obstore", None)


def warnings(lines: list[logging.LogRecord]) -> list[str]:
    """This package's log at Python's default level, without the warning about plain http."""
    ours = [line for line in lines if line.name.startswith("kafka_remote_client")]
    return [line.getMessage() for line in ours if line.levelno >= logging.WARNING]
