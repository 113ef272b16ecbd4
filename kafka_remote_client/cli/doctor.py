"""``kafka-remote doctor``: follows the way of one batch from the tier, step by step, and names the one thing to change.

::

    a consumer's configuration   configuration ► broker ► shim ► tier ► location ► host ► GET ► bytes ► clock
    the URL of a store           store ► layout ► location ► GET ► bytes ► clock

A step uses the same code as a consumer. The first one that fails decides the remedy; later ones are not tried. Each network
call has a deadline. With another location source than the shim, the steps of the store follow those of the broker.

References: docs/cli.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Annotated

import attrs
import typer

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.locate import open_source
from kafka_remote_client.cli.old_spellings import topics_of
from kafka_remote_client.cli.output import OutputFormat, show_facts, show_json
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import parse_encryption_keys
from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig, split_config
from kafka_remote_client.errors import (
    BrokerResponseError,
    ConfigurationError,
    CorruptChunkError,
    CorruptIndexError,
    CorruptRecordError,
    DataKeyError,
    DirectFetchError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    LocationExpiredError,
    NotAnnouncedError,
    PeerCertificateError,
    PeerUnreachableError,
    RemoteLogError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SaslAuthenticationError,
    SecurityProtocolError,
    UnservedConnectionError,
)
from kafka_remote_client.fetch.location_sources import configured_store, reads_the_store, servers
from kafka_remote_client.fetch.range_io import Transfer, read_range
from kafka_remote_client.fetch.storage_formats import RestoringFetcher, installed_formats, readable_formats
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.fetch.tier_sources import configured_layout
from kafka_remote_client.location.bootstrap import with_servers
from kafka_remote_client.location.leaders import open_leaders
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.source import LocationSource, locate_one
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel, NotRemote, SegmentLocation
from kafka_remote_client.plugin import RemoteStorageFetcher
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.records.reader import read_batches
from kafka_remote_client.registry import check_settings, load_fetcher
from kafka_remote_client.remote_log.store_contents import nothing_found

__all__ = ["Examination", "Step", "add_verb", "examine", "show_steps"]

_ONE_BATCH = 1
_CLOCK_MS = 60_000
_PERMITTED = "the store's host is permitted"
_NAMES = ("configuration", "broker", "shim", "store", "layout", "tier", "location", "host", "GET", "bytes", "clock")
_ONLY_SOME = frozenset({"broker", "shim", "store", "layout"})
"""Steps that not every configuration has."""
_GRANTS = {
    False: (
        "Look for the reason in the shim's log: permit the topic (topic policies), correct its access to the store, or wait "
        "until it has read the metadata topic."
    ),
    True: "Raise --timeout; if the log has failed connections, correct the settings of brokers.",
}
"""The remedy where no location is granted, by whether this client reads the metadata by itself."""
_SIGNER = "the credentials that sign the request (the shim's, or this client's)"
_LISTS = frozenset({"store", "layout"})
_TOPICS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "Name a topic that the cluster has.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Permit this principal to describe and read the topic (ACLs of the brokers).",
}
"""The remedies where brokers refuse a topic."""
_REACH_THE_STORE = "Start the store, open the network to it, or correct its address or bucket."
_VERIFY = "Check the tier with kafka-remote verify."
_REMEDIES: tuple[tuple[type[DirectFetchError], str], ...] = (
    (NotAnnouncedError, "Let fetch.remote.bootstrap.servers name the shim."),
    (SaslAuthenticationError, "Correct the SASL settings."),
    (PeerCertificateError, "Correct ssl.ca.location, or ssl.certificate.location and ssl.key.location."),
    (SecurityProtocolError, "Correct security.protocol, or name the port that has this protocol."),
    (
        UnservedConnectionError,
        "Correct security.protocol or the port, or raise the limits of the shim. Its log has the reason.",
    ),
    (PeerUnreachableError, "Start the server at that address, or correct the address."),
    (ForbiddenLocationError, "Permit this store: correct the remote.storage.fetcher.* setting that the reason names."),
    (LocationExpiredError, "Raise url_ttl of the shim, and compare the clocks of shim and store."),
    (InvalidStorageResponseError, "Correct the address of the store."),
    (RemoteStorageTimeoutError, _REACH_THE_STORE),
    (RemoteStorageUnavailableError, _REACH_THE_STORE),
    (RemoteStorageError, "Correct the store's settings: see the reason."),
    (CorruptRecordError, _VERIFY),
    (CorruptIndexError, _VERIFY),
    (CorruptChunkError, _VERIFY),
    (DataKeyError, "Name the private key that the reason names: remote.storage.store.encryption.keys (--encryption-key)."),
    (ConfigurationError, "Correct the setting that the reason names."),
    (RemoteLogError, "Correct remote.storage.store.url or remote.storage.store.layout (--layout)."),
)


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("doctor")(_doctor)


class _FailedError(Exception):
    """A step failed for a reason without an error of its own."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


@attrs.frozen
class Step:
    """``state``: "ok", "failed", or "skipped" after a failure. ``remedy``: what to change, for the failed one."""

    name: str
    state: str
    reason: str
    remedy: str | None = None


@attrs.define
class Examination:
    """One way to the tier: ``settings`` of a consumer; ``topic`` bounds the search for tiered records."""

    settings: Mapping[str, object]
    clock: Clock
    seconds: float
    topic: str | None = None
    opened: ExitStack = attrs.field(factory=ExitStack)
    _question: LocationQuestion | None = None
    _location: SegmentLocation | None = None
    _data: bytes = b""
    _newest_ms: int = UNKNOWN_OFFSET
    _remote: RemoteFetchConfig = attrs.field(factory=RemoteFetchConfig)
    _inner: dict[str, object] = attrs.field(factory=dict)

    def steps(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """The steps in order. Each runs before the next one is asked for, and raises what fails."""
        yield "configuration", self._configure
        remote, by_store = self._remote, reads_the_store(self._remote)
        has_broker = not by_store or remote.listing_broker
        source = self.opened.enter_context(open_source(self.settings, self.clock))
        if has_broker:
            yield "broker", self._broker
        if by_store:
            yield "store", self._store
            yield "layout", self._layout
        else:
            yield "shim", lambda: self._shim(source)
        yield "tier", lambda: self._tier(source)
        yield "location", lambda: self._locate(source)
        yield "host", self._host
        yield "GET", lambda: f"{len(self._data)} bytes arrived"
        yield "bytes", self._bytes
        yield "clock", self._clock_step

    def _configure(self) -> str:
        self._remote, self._inner = split_config(self.settings)
        if not self._remote.enabled:
            raise _FailedError("fetch.remote.enabled is false: brokers serve all records", "Set fetch.remote.enabled=true.")
        with open_source(self.settings, self.clock):
            return f"settings are valid: {len(self.settings)}"

    def _broker(self) -> str:
        with closing(open_leaders(self._inner, self.clock, self.seconds)) as leaders:
            found = leaders.topics(self._topics, Deadline(self.clock, self.seconds))
        return f"bootstrap.servers answer; topics: {len(found)}"

    @property
    def _topics(self) -> list[str] | None:
        return None if self.topic is None else [self.topic]

    def _shim(self, source: LocationSource) -> str:
        for topic, partition in self._partitions()[:1]:
            source.offsets(topic, partition, Deadline(self.clock, self.seconds))
        return f"{servers(self._remote, self._inner)[1]} announces direct fetch"

    def _store(self) -> str:
        with closing(configured_store(self._remote)) as store:
            found = next(iter(store.list("")), None)
        if found is None:
            raise _FailedError(f"no objects below {self._remote.store_url}", "Correct the URL of the store.")
        return "the store lists objects"

    def _layout(self) -> str:
        store = configured_store(self._remote)
        with closing(ListingLocationSource(store, configured_layout(self._remote), topic=self.topic)) as listing:
            topics = listing.topics()
            if not topics:
                if self.topic is None:
                    raise nothing_found("found no segments", store)
                said = str(nothing_found(f"found no segments of topic {self.topic}", store))
                raise _FailedError(said, "Name a topic that the store has, or correct the URL of the store or the layout.")
        return f"layout {self._remote.store_layout}: topics: {len(topics)}"

    def _tier(self, source: LocationSource) -> str:
        for topic, partition in self._partitions():
            offsets = source.offsets(topic, partition, Deadline(self.clock, self.seconds))
            if offsets.log_start <= offsets.latest_tiered:
                level = IsolationLevel.READ_UNCOMMITTED
                self._question = LocationQuestion(
                    topic=topic,
                    partition=partition,
                    offset=offsets.log_start,
                    isolation_level=level,
                    max_bytes=_ONE_BATCH,
                    formats=readable_formats(installed_formats()),
                )
                return f"{topic}-{partition} is tiered from offset {offsets.log_start} to {offsets.latest_tiered}"
        raise _FailedError("no partition has tiered records", "Name a tiered topic, or enable remote storage for it.")

    def _partitions(self) -> list[tuple[str, int]]:
        if reads_the_store(self._remote) and not self._remote.listing_broker:
            with closing(
                ListingLocationSource(configured_store(self._remote), configured_layout(self._remote), topic=self.topic)
            ) as found:
                return [(tip.topic, tip.partition) for tip in found.listing.partitions()]
        _, asked = servers(self._remote, self._inner)
        with closing(open_leaders(with_servers(self._inner, asked), self.clock, self.seconds)) as leaders:
            topics = leaders.topics(self._topics, Deadline(self.clock, self.seconds))
        named = sorted((name, topic) for name, topic in topics.items() if not topic.is_internal)
        return [(name, one.partition_index) for name, topic in named for one in topic.partitions]

    def _locate(self, source: LocationSource) -> str:
        assert self._question is not None
        answer = locate_one(source, self._question, Deadline(self.clock, self.seconds))
        if isinstance(answer, NotRemote):
            if answer.error is not None:
                raise answer.error
            raise _FailedError(f"no location is granted: {answer.reason}", _GRANTS[reads_the_store(self._remote)])
        self._location = answer
        return f"{answer.span.size} bytes of a segment in format {answer.format} are granted"

    def _host(self) -> str:
        """Reads the range: a host that is not permitted is refused before the GET."""
        assert self._location is not None
        (granted, *_) = self._location.ranges
        transfer = Transfer(lambda: bytearray(granted.range.size))
        read_range(self._fetcher(), self._location, granted, transfer, Deadline(self.clock, self.seconds))
        self._data = bytes(memoryview(transfer.buffer)[: transfer.filled])
        return _PERMITTED

    def _fetcher(self) -> RestoringFetcher:
        remote = self._remote
        store = configured_store(remote) if reads_the_store(remote) else None
        fetcher: RemoteStorageFetcher
        if store is None or remote.fetcher_class is not None:
            fetcher = load_fetcher(remote, store)
        else:
            check_settings(remote, store)
            fetcher = StoreFetcher(store)
        self.opened.callback(fetcher.close)
        return RestoringFetcher(fetcher, installed_formats())

    def _bytes(self) -> str:
        assert self._question is not None
        block = read_batches(memoryview(self._data), fetch_offset=self._question.offset)
        self._newest_ms = max((timestamp for _, timestamp, *_ in block.rows()), default=UNKNOWN_OFFSET)
        return f"checksums are right: {len(block)} records"

    def _clock_step(self) -> str:
        assert self._location is not None
        ahead = max(self._newest_ms, self._location.metadata.event_timestamp_ms) - self.clock.time_ms()
        if ahead > _CLOCK_MS:
            raise _FailedError(
                f"the batch is {ahead // 1000} s in the future of this machine", "Set this machine's clock (NTP)."
            )
        return "the batch is not in the future of this machine"


def examine(examination: Examination) -> list[Step]:
    """Runs the steps up to the first failure. Never raises a DirectFetchError."""
    done: list[Step] = []
    name = _NAMES[0]
    with examination.opened:
        try:
            for name, run in examination.steps():
                done.append(Step(name, "ok", run()))
        except _FailedError as error:
            done.append(Step(name, "failed", error.reason, error.remedy))
        except DirectFetchError as error:
            if isinstance(error, RemoteStorageError) and name == "host" and not isinstance(error, ForbiddenLocationError):
                done.append(Step(name, "ok", _PERMITTED))
                name = "GET"
            done.append(Step(name, "failed", str(error), _remedy(name, error)))
    if done[-1].state == "ok":
        return done
    later = [left for left in _NAMES[_NAMES.index(name) + 1 :] if left not in _ONLY_SOME]
    return done + [Step(left, "skipped", "an earlier step failed") for left in later]


def _remedy(step: str, error: DirectFetchError) -> str:
    if isinstance(error, RemoteStorageAccessError):
        if error.clocks_differ:
            return "Set the clock (NTP) of the machine that signs the request: the shim's, or this one."
        right = "list the store (S3: s3:ListBucket)" if step in _LISTS else "read its objects (S3: s3:GetObject)"
        return f"Correct {_SIGNER}, or permit them to {right}."
    if isinstance(error, BrokerResponseError) and error.code in _TOPICS:
        return _TOPICS[ErrorCode(error.code)]
    return next((remedy for kind, remedy in _REMEDIES if isinstance(error, kind)), "See docs/troubleshooting.md.")


def show_steps(steps: list[Step], output: OutputFormat) -> None:
    """Prints one line or one JSON object for each step, and the remedy at the end."""
    if output is OutputFormat.JSON:
        for step in steps:
            show_json(attrs.asdict(step))
        return
    facts = {step.name: f"{step.state}: {step.reason}" if step.state != "skipped" else "skipped" for step in steps}
    remedies = [step.remedy for step in steps if step.remedy is not None]
    show_facts({**facts, **({"change": remedies[0]} if remedies else {})})


def _doctor(
    place: Annotated[
        str, typer.Argument(help="A consumer's configuration (lines KEY=VALUE), or the URL of a store.", metavar="FILE|URL")
    ],
    topic: Annotated[str | None, typer.Argument(help="Tiered topic to try; default: the first one.", metavar="TOPIC")] = None,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    encryption_key: options.EncryptionKeys = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
    output: options.Output = OutputFormat.TEXT,
    old_topic: options.OldTopic = None,
) -> None:
    """Checks each step from a configuration to a record. Names the one thing to change."""
    named = topics_of([] if topic is None else [topic], old_topic, remark)
    if "://" in place:
        store_options = parse_settings(store_option or [], "--store-option")
        keys = parse_encryption_keys(encryption_key or [])
        settings: dict[str, object] = {
            "fetch.remote.enabled": True,
            "fetch.remote.location.source": "listing",
            "fetch.remote.listing.broker": False,
            "remote.storage.store.url": place,
            "remote.storage.store.layout": layout,
            "remote.storage.store.key.prefix": key_prefix,
            **(
                {"remote.storage.store.encryption.keys": ",".join(f"{name}={path}" for name, path in keys.items())}
                if keys
                else {}
            ),
            **{f"remote.storage.fetcher.{name}": value for name, value in store_options.items()},
        }
    else:
        settings = dict(parse_settings([f"@{place}"], "FILE"))
    steps = examine(Examination(settings, SystemClock(), timeout, next(iter(named), None)))
    show_steps(steps, output)
    if any(step.state == "failed" for step in steps):
        raise typer.Exit(1)
