"""A tiered Kafka with a shim and an object store in this process, for the demo and for tests. No Java, no Docker.

::

    clients ─► Shim ─► TieredCluster ─► directory ◄─ ObjectOrigin ◄─ signed URLs
                 └── metadata ──┘

:class:`TieredCluster` is the Kafka: one broker. This module puts in front of it what a client with direct fetch needs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from confluent_kafka import KafkaException, Message, Producer

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import LocationError
from kafka_remote_client.plugin import ObjectSigner
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.registry import load_store
from kafka_remote_client.remote_log.events import RemoteLogMetadata
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.prefetch import store_read_executor
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.origin import ObjectOrigin, OriginFaults, StoreBehaviour
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.settings import shim_default
from kafka_remote_client.shim.shim_tier import origin_metrics
from kafka_remote_client.tiered_kafka.cluster import TieredCluster

__all__ = ["EmbeddedCluster", "EmbeddedRecord", "Faults"]

EmbeddedRecord: TypeAlias = tuple[bytes | None, bytes | None]
"""Key and value."""

_SECRET_BYTES = 32
_FLUSH_SECONDS = 60.0
_QUIET = {"log_level": 4}
_MAX_PARTITIONS, _MAX_BYTES = 1 << 10, 2**31 - 1
_NEVER, _AT_ONCE = "-1", "0"
_NOT_STARTED = "the cluster is not started; call start()"


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


class _Granting(GrantingBroker):
    """Also notes who connects."""

    def __init__(
        self,
        tier: ResolvingTier,
        limits: GrantLimits,
        counters: Counters,
        workers: ThreadPoolExecutor,
        kept_workers: ThreadPoolExecutor,
    ) -> None:
        super().__init__(tier, limits, counters, workers, kept_workers)
        self.clients: list[str] = []

    def collects(self, head: RequestHead, length: int) -> bool:
        return head.api_key == ApiKey.API_VERSIONS or super().collects(head, length)

    def claims(self, head: RequestHead, body: bytes) -> bool:
        return head.api_key == ApiKey.API_VERSIONS or super().claims(head, body)

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        if request.header.api_key == ApiKey.API_VERSIONS:
            self.clients.append(f"{request.client} {request.header.client_id or ''}")
            return None  # the broker answers
        return await super().answer(request, ask)


class EmbeddedCluster:
    """Starts with :meth:`start` (or ``with``), ends with :meth:`close`. ``directory`` becomes the tier; it is not removed.

    ``partitions``: of a topic that a client creates by asking for it; the demo uses all. ``segment_bytes``, ``range_bytes``,
    ``max_grant_bytes`` and ``url_ttl`` (seconds): as in a topic and a shim.
    ``expire_local``: sealed segments leave the broker when they are in the tier (``local.retention.bytes`` is 0, otherwise -1).
    ``signer``: signs the URLs instead of the cluster's object origin, which then gets no requests.
    ``listen``, ``origin_listen`` and ``broker_listen``: ports of the shim, of the object store and of the broker, on localhost;
    0 takes a free one. ``observe`` gets each event of the tier, in the broker's thread.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        partitions: int = 4,
        segment_bytes: int = 1 << 20,
        range_bytes: int = shim_default("range_bytes"),
        max_grant_bytes: int = shim_default("max_grant_bytes"),
        url_ttl: float = shim_default("url_ttl"),
        expire_local: bool = False,
        signer: ObjectSigner | None = None,
        listen: int = 0,
        origin_listen: int = 0,
        broker_listen: int = 0,
        observe: Callable[[RemoteLogMetadata], None] = lambda _event: None,
        clock: Clock | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.partitions = arguments.whole(partitions, "partitions", 1, _MAX_PARTITIONS)
        self._limits = GrantLimits(range_bytes, max_grant_bytes, url_ttl)
        self._segment_bytes = arguments.whole(segment_bytes, "segment_bytes", 1, _MAX_BYTES)
        self._local_retention_bytes = _AT_ONCE if expire_local else _NEVER
        self._signer = signer
        self._listen = listen
        self._origin_listen = origin_listen
        self._broker_listen = broker_listen
        self._observe = observe
        self._clock = clock or SystemClock()
        self._counters = Counters()
        self._faults = OriginFaults()
        self._producers: dict[str, Producer] = {}
        self._kafka: TieredCluster | None = None
        self._store = RemoteLogMetadataStore()
        self._origin: ObjectOrigin | None = None
        self._workers: list[Executor] = []
        self._strategy: _Granting | None = None
        self._shim: Shim | None = None
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
        self._kafka = TieredCluster(
            self.directory,
            partitions=self.partitions,
            segment_bytes=self._segment_bytes,
            topic_settings={"local.retention.bytes": self._local_retention_bytes},
            port=self._broker_listen,
            observe=self._observed,
            clock=self._clock,
        ).start()
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
        workers = ThreadPoolExecutor(concurrency, thread_name_prefix="kafka-remote-embedded")
        kept_workers = ThreadPoolExecutor(concurrency, thread_name_prefix="kafka-remote-embedded-kept")
        reads = store_read_executor("kafka-remote-embedded-index")
        self._workers = [workers, kept_workers, reads]
        tier = ResolvingTier(
            self._store,
            load_store(self._kafka.store.url),
            LocalTieredStorageLayout(),
            self._signer or self._origin.signer,
            url_ttl=self._limits.url_ttl,
            ready=lambda _tip: True,
            executor=reads,
        )
        self._strategy = _Granting(tier, self._limits, self._counters, workers, kept_workers)
        config = ShimConfig(
            self.broker_bootstrap_servers,
            listen=f"127.0.0.1:{self._listen}",
            advertised_host="localhost" if self._listen else None,
        )
        self._shim = Shim(config, strategy=self._strategy, counters=self._counters, clock=self._clock).start()

    def _observed(self, record: bytes) -> None:
        event = RemoteLogMetadataSerde().deserialize(record)
        self._store.apply(event)
        self._observe(event)

    def close(self) -> None:
        """Stops all parts. May be called twice."""
        for part in (self._shim, self._origin):
            if part is not None:
                part.stop()
        for workers in self._workers:
            workers.shutdown(cancel_futures=True)
        self._producers.clear()
        if self._kafka is not None:
            self._kafka.close()

    @property
    def kafka(self) -> TieredCluster:
        """The Kafka that the shim forwards to. Raises RuntimeError before :meth:`start`."""
        if self._kafka is None:
            raise RuntimeError(_NOT_STARTED)
        return self._kafka

    @property
    def bootstrap_servers(self) -> str:
        """The shim's address, for clients. Raises RuntimeError before :meth:`start`."""
        if self._shim is None:
            raise RuntimeError(_NOT_STARTED)
        return self._shim.bootstrap_servers

    @property
    def broker_bootstrap_servers(self) -> str:
        """The broker's address, for clients that must not use the shim. Raises RuntimeError before :meth:`start`."""
        return self.kafka.bootstrap_servers

    @property
    def origin_url(self) -> str:
        """Scheme, host and port of the object store. Raises RuntimeError before :meth:`start`."""
        if self._origin is None:
            raise RuntimeError(_NOT_STARTED)
        return self._origin.url

    def producer(self, **config: object) -> Producer:
        """Returns a new librdkafka producer that uses the broker directly; ``_`` in a setting's name stands for ``.``."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return Producer({"bootstrap.servers": self.broker_bootstrap_servers, **_QUIET, **settings})

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
            raise LocationError("the broker does not accept the records")
        return offsets

    def archive(self, *, keep_open: bool = True) -> int:
        """Copies sealed segments to the tier, with ``keep_open=False`` also the active ones. Returns how many were copied."""
        return self.kafka.tier_now(roll=not keep_open, keep_active=keep_open)

    def metrics(self) -> dict[str, int]:
        """The counters of the shim, of the object store, and of the broker's own reads from the tier."""
        origin = {} if self._origin is None else origin_metrics(self._origin)
        reads = {} if self._kafka is None else self._kafka.tier_reads()
        return self._counters.snapshot() | origin | reads

    def clients(self) -> list[str]:
        """Address, port and client id of each connection to the shim that sent ApiVersions, in this order."""
        return [] if self._strategy is None else list(self._strategy.clients)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
