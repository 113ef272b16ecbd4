"""A cluster in this process: librdkafka's mock broker, an archiver, and the shim with its object origin. No Java, no Docker.

::

    clients ─► Shim (EmbeddedBroker) ─► mock broker ◄─ Archiver ─► directory ◄─ ObjectOrigin ◄─ signed URLs
                        └───────── reads as a broker reads its tier ─────┘

The mock keeps 5 MiB of compressed batches, or 100,000 batches, of each partition and drops older ones. So repeat: produce,
flush, archive. Batches that were dropped before they were archived are lost, and the next :meth:`EmbeddedCluster.archive`
raises.

References: librdkafka's ``test.mock.num.brokers``; KIP-405.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from confluent_kafka import KafkaException, Message, Producer

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.embedded.archiver import Archiver
from kafka_remote_client.embedded.broker import EmbeddedBroker
from kafka_remote_client.embedded.log import EmbeddedLogs
from kafka_remote_client.embedded.metadata_publisher import MetadataPublisher, ObservedStore
from kafka_remote_client.errors import ConfigurationError, LocationError
from kafka_remote_client.plugin import ObjectSigner
from kafka_remote_client.registry import load_store
from kafka_remote_client.remote_log.events import RemoteLogMetadata
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.prefetch import store_read_executor
from kafka_remote_client.shim.broker import PassThrough
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.origin import ObjectOrigin, OriginFaults, StoreBehaviour
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.settings import shim_default
from kafka_remote_client.shim.tier import origin_metrics

__all__ = ["EmbeddedCluster", "EmbeddedRecord", "Faults"]

EmbeddedRecord: TypeAlias = tuple[bytes | None, bytes | None]
"""Key and value."""

_MOCK_PARTITIONS = 4
_MAX_SEGMENT_BYTES = 2 << 20
_SECRET_BYTES = 32
_FLUSH_SECONDS = 60.0
_QUIET = {"log_level": 4}


class Faults:
    """Faults of a running cluster's object store. The broker's own reads are not affected."""

    def __init__(self, origin: OriginFaults) -> None:
        self._origin = origin

    def store_down(self) -> None:
        """Closes each connection to the store, also in the middle of a body, and each new one."""
        self._origin.down = True

    def slow_store(self, seconds: float) -> None:
        """Delays the start of each answer of the store by ``seconds``."""
        self._origin.delay = arguments.duration(seconds, "seconds")

    def behave_like(self, store: StoreBehaviour | None) -> None:
        """Lets ``store`` decide when each GET of an object is answered, and which of them are refused with 503."""
        self._origin.store = store

    def expired_urls(self) -> None:
        """Makes every signed URL, old and new, count as expired."""
        self._origin.expire_everything = True

    def clear(self) -> None:
        """Ends all faults."""
        self._origin.down = False
        self._origin.delay = 0.0
        self._origin.expire_everything = False
        self._origin.store = None


class EmbeddedCluster:
    """Starts with :meth:`start` (or ``with``), ends with :meth:`close`. ``directory`` becomes the tier; it is not removed.

    A topic of the mock has four partitions. ``partitions``: how many of them :meth:`produce` and the demo use.
    ``segment_bytes``, ``range_bytes``, ``max_grant_bytes`` and ``url_ttl`` (seconds): as in a tier and a shim.
    ``expire_local``: archived records leave the broker at once, and not only when the mock drops them. So little data suffices.
    ``signer``: signs the URLs instead of the cluster's object origin, which then gets no requests.
    ``listen`` and ``origin_listen``: ports of the shim and of the object store on localhost; 0 takes a free one.
    ``broker_listen``: port of an additional listener that is like a plain broker and announces no direct fetch.
    ``metadata_topic``: also write ``__remote_log_metadata``. ``observe`` gets each event of the tier.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        partitions: int = _MOCK_PARTITIONS,
        segment_bytes: int = 1 << 20,
        range_bytes: int = shim_default("range_bytes"),
        max_grant_bytes: int = shim_default("max_grant_bytes"),
        url_ttl: float = shim_default("url_ttl"),
        expire_local: bool = False,
        signer: ObjectSigner | None = None,
        listen: int = 0,
        origin_listen: int = 0,
        broker_listen: int | None = None,
        metadata_topic: bool = False,
        observe: Callable[[RemoteLogMetadata], None] = lambda _event: None,
        clock: Clock | None = None,
    ) -> None:
        if not 1 <= partitions <= _MOCK_PARTITIONS:
            raise ConfigurationError(f"partitions must be 1 to {_MOCK_PARTITIONS}, as many as the mock broker's topics have")
        if not 1 <= segment_bytes <= _MAX_SEGMENT_BYTES:
            # Batches collected for a segment are not in the tier yet, so the mock must still have them when the segment is
            # full.
            raise ConfigurationError(f"segment_bytes must be at most {_MAX_SEGMENT_BYTES}: the mock broker keeps 5 MiB")
        self.directory = Path(directory)
        self.partitions = partitions
        self._limits = GrantLimits(range_bytes, max_grant_bytes, url_ttl)
        self._segment_bytes = segment_bytes
        self._expire_local = expire_local
        self._signer = signer
        self._listen = listen
        self._origin_listen = origin_listen
        self._broker_listen = broker_listen
        self._metadata_topic = metadata_topic
        self._observe = observe
        self._clock = clock or SystemClock()
        self._counters = Counters()
        self._faults = OriginFaults()
        self._mock: Producer | None = None
        self._producers: dict[str, Producer] = {}
        self._archiver: Archiver | None = None
        self._origin: ObjectOrigin | None = None
        self._workers: ThreadPoolExecutor | None = None
        self._kept_workers: ThreadPoolExecutor | None = None
        self._reads: ThreadPoolExecutor | None = None
        self._broker: EmbeddedBroker | None = None
        self._shim: Shim | None = None
        self._front: Shim | None = None
        self.mock_bootstrap_servers = ""
        self.faults = Faults(self._faults)

    def start(self) -> Self:
        """Starts all parts. Raises ConfigurationError or OSError if the directory or an address is not available."""
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._mock = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, **_QUIET})
        (broker,) = self._mock.list_topics(timeout=10).brokers.values()
        self.mock_bootstrap_servers = f"{broker.host}:{broker.port}"
        publishers = (
            [MetadataPublisher(Producer({"bootstrap.servers": self.mock_bootstrap_servers, "log_level": 0}))]
            if self._metadata_topic
            else []
        )
        store, logs, layout = ObservedStore(*publishers, self._observe), EmbeddedLogs(), LocalTieredStorageLayout()
        objects = load_store(self.directory.resolve().as_uri())
        self._archiver = Archiver(
            (broker.host, broker.port), self.directory, layout, store, logs, self._clock, segment_bytes=self._segment_bytes
        )
        self._origin = ObjectOrigin(
            self.directory,
            secrets.token_bytes(_SECRET_BYTES),
            port=self._origin_listen,
            advertised_url=f"http://localhost:{self._origin_listen}" if self._origin_listen else None,
            clock=self._clock,
            faults=self._faults,
        )
        self._origin.start()
        concurrency: int = shim_default("lookup_concurrency")
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix="kafka-remote-embedded")
        self._kept_workers = ThreadPoolExecutor(concurrency, thread_name_prefix="kafka-remote-embedded-kept")
        self._reads = store_read_executor("kafka-remote-embedded-index")
        tier = ResolvingTier(
            store,
            objects,
            layout,
            self._signer or self._origin.signer,
            url_ttl=self._limits.url_ttl,
            ready=lambda _tip: True,
            executor=self._reads,
        )
        granting = GrantingBroker(tier, self._limits, self._counters, self._workers, self._kept_workers)
        self._broker = EmbeddedBroker(granting, logs, self._counters, self._workers, expire_local=self._expire_local)
        self._shim = self._listening(self._broker, self._listen)
        if self._broker_listen is not None:
            plain = EmbeddedBroker(
                PassThrough(), logs, self._counters, self._workers, expire_local=self._expire_local, announces=False
            )
            self._front = self._listening(plain, self._broker_listen)

    def _listening(self, strategy: EmbeddedBroker, port: int) -> Shim:
        config = ShimConfig(
            self.mock_bootstrap_servers, listen=f"127.0.0.1:{port}", advertised_host="localhost" if port else None
        )
        return Shim(config, strategy=strategy, counters=self._counters, clock=self._clock).start()

    def close(self) -> None:
        """Stops all parts. May be called twice."""
        for part in (self._front, self._shim, self._origin):
            if part is not None:
                part.stop()
        for workers in (self._workers, self._kept_workers, self._reads):
            if workers is not None:
                workers.shutdown(cancel_futures=True)
        if self._archiver is not None:
            self._archiver.close()
        self._producers.clear()
        self._mock = None

    @property
    def bootstrap_servers(self) -> str:
        """The shim's address, for clients. Raises RuntimeError before :meth:`start`."""
        if self._shim is None:
            raise RuntimeError("the cluster is not started; call start()")
        return self._shim.bootstrap_servers

    @property
    def origin_url(self) -> str:
        """Scheme, host and port of the object store. Raises RuntimeError before :meth:`start`."""
        if self._origin is None:
            raise RuntimeError("the cluster is not started; call start()")
        return self._origin.url

    def producer(self, **config: object) -> Producer:
        """Returns a new librdkafka producer that uses the mock broker directly; ``_`` in a setting's name stands for ``.``."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return Producer({"bootstrap.servers": self.mock_bootstrap_servers, **_QUIET, **settings})

    def produce(
        self,
        topic: str,
        records: Sequence[EmbeddedRecord] | Iterable[EmbeddedRecord],
        *,
        partition: int = 0,
        codec: str = "none",
    ) -> list[int]:
        """Produces keys and values to one partition and waits. Returns their offsets. Raises KafkaException, LocationError."""
        producer = self._producers.get(codec)
        if producer is None:
            # flush() ends the linger time, so a pause of this thread between two records does not end their batch.
            producer = self._producers[codec] = self.producer(compression_type=codec, linger_ms=1_000)
        offsets: list[int] = []

        def delivered(error: object, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            offset = message.offset()
            assert offset is not None
            offsets.append(offset)

        for key, value in records:
            producer.produce(topic, value=value, key=key, partition=partition, on_delivery=delivered)
        if producer.flush(_FLUSH_SECONDS):
            raise LocationError("the mock broker does not accept the records")
        return offsets

    def archive(self, *, keep_open: bool = True) -> int:
        """Copies full segments to the tier, with ``keep_open=False`` also partial ones. Returns the number of copied segments.

        Raises LocationError if the mock broker dropped records before they were copied.
        """
        if self._archiver is None:
            raise RuntimeError("the cluster is not started; call start()")
        return self._archiver.step(keep_open=keep_open)

    def metrics(self) -> dict[str, int]:
        """The counters of the shim, of the object store, and of the broker's own reads from the tier."""
        origin = {} if self._origin is None else origin_metrics(self._origin)
        return self._counters.snapshot() | origin

    def clients(self) -> list[str]:
        """Address, port and client id of each connection to the shim that sent ApiVersions, in this order."""
        return [] if self._broker is None else list(self._broker.clients)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
