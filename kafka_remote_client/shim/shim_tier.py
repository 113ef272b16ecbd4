"""Assembles a shim's tier: the parts that follow the metadata topic, read the store, sign URLs and serve objects.

::

    __remote_log_metadata ─► RemoteLogMetadataFollower ─► RemoteLogMetadataStore ─┐
                                          store (indexes) ─► RemoteSegmentResolver ├─► ResolvingTier ─► GrantingBroker
                        ObjectOrigin ◄─ the same store (file:)      ObjectSigner ──┘

The follower and the store are used under the shim's own principals, which need to read the metadata topic and the objects,
and nothing else.
"""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import ConfigurationError, DirectFetchError
from kafka_remote_client.plugin import ObjectSigner, RemoteObjectStore
from kafka_remote_client.registry import check_store_options, load_signer, load_store, signer_schemes
from kafka_remote_client.remote_log.breaker_store import guarded_store
from kafka_remote_client.remote_log.follower import RemoteLogMetadataFollower
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.remote_log.metadata_snapshots import MetadataSnapshots
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.prefetch import store_read_executor
from kafka_remote_client.shim.checks import check_store
from kafka_remote_client.shim.client_limits import ClientLimits
from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.origin import ObjectOrigin
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.tls import origin_context
from kafka_remote_client.shim.topic_policies import topic_policies

__all__ = ["ShimTier", "granting_signer", "origin_metrics"]

_SECRET_BYTES = 32
_SERVED_SCHEMES = ("file",)


class ShimTier:
    """The tier of a shim's grants. Begins with :meth:`start`, ends with :meth:`close`.

    Raises ConfigurationError for a store or layout that does not exist.
    """

    def __init__(self, config: ShimConfig, counters: Counters, clock: Clock) -> None:
        if config.store is None:
            raise ConfigurationError("a shim that grants locations needs a store")
        self._config = config
        self._clock = clock
        self._signer = granting_signer(config)
        self._objects = load_store(config.store, config.store_options)
        self._guarded = guarded_store(self._objects, clock, hang_seconds=config.lookup_timeout)
        readers = (self._objects,) if self._signer is None else (self._objects, self._signer)
        check_store_options(config.store_options, *readers)
        self._layout = layout_named(config.layout, LayoutOptions(config.key_prefix, config.encryption_keys))
        self._metadata = RemoteLogMetadataStore()
        self._snapshots = _snapshots(config, clock)
        self._follower = RemoteLogMetadataFollower(
            config.follower_settings,
            self._metadata,
            topic=config.metadata_topic,
            clock=clock,
            snapshots=self._snapshots,
        )
        self._origin = _origin(self._objects, config, clock) if self._signer is None else None
        self._counters = counters
        self._workers = ThreadPoolExecutor(config.lookup_concurrency, thread_name_prefix="kafka-remote-resolver")
        self._kept_workers = ThreadPoolExecutor(config.lookup_concurrency, thread_name_prefix="kafka-remote-kept")
        self._reads = store_read_executor()
        self._resolving: ResolvingTier | None = None
        self._strategy: GrantingBroker | None = None

    def start(self) -> None:
        """Starts serving objects and following metadata. Raises ConfigurationError when the origin's address is taken."""
        config = self._config
        signer = self._signer
        if self._origin is not None:
            try:
                self._origin.start()
            except OSError as error:
                raise ConfigurationError(f"cannot listen on {config.origin_listen}: {error.strerror}") from None
            signer = self._origin.signer
        assert signer is not None
        self._follower.start()
        self._resolving = ResolvingTier(
            self._metadata,
            self._guarded,
            self._layout,
            signer,
            url_ttl=config.url_ttl,
            ready=self._follower.ready,
            executor=self._reads,
            index_cache_bytes=config.index_cache_bytes,
        )
        clients = ClientLimits(config.client_limits, self._clock)
        limits = self._limits(config)
        self._strategy = GrantingBroker(self._resolving, limits, self._counters, self._workers, self._kept_workers, clients)

    @property
    def strategy(self) -> GrantingBroker:
        """The strategy that answers location requests. Raises RuntimeError before :meth:`start`."""
        if self._strategy is None:
            raise RuntimeError("the tier is not started")
        return self._strategy

    @property
    def origin_url(self) -> str | None:
        """The URL of the shim's object origin; ``None`` if signed URLs lead to the store."""
        return None if self._origin is None else self._origin.url

    def wait_ready(self, seconds: float) -> bool:
        """Waits until all metadata that existed at the start has been read. Returns False after the time-out."""
        return self._follower.wait_settled(seconds)

    def check(self) -> str | None:
        """Returns why grants are stopped: metadata is not read or inconsistent, or the store lacks a segment; else ``None``."""
        found = [one for one in (self._check_metadata(), self._check_objects()) if one is not None]
        return "; ".join(found) or None

    def _check_metadata(self) -> str | None:
        behind = self._follower.not_ready()
        if behind is None:
            return f"the metadata topic {self._config.metadata_topic} has not been found yet"
        if behind:
            return f"metadata partitions are not read to their end, or not trusted: {', '.join(map(str, behind[:10]))}"
        return None

    def _check_objects(self) -> str | None:
        # Metadata that is not read to its end may name deleted segments.
        caches = map(self._metadata.cache, filter(self._follower.ready, self._metadata.partitions()))
        sample = next((segment for cache in caches if cache and (segment := cache.newest_segment())), None)
        if sample is None:
            return check_store(self._objects, self._layout)
        try:
            self._objects.size(self._layout.object_key(sample, ObjectKind.LOG))
        except (DirectFetchError, OSError) as error:
            missing = f"a segment of {sample.topic_id_partition.topic} cannot be found in the store: {error}"
            why = check_store(self._objects, self._layout) or "check store, layout and key_prefix"
            return f"{missing}; {why}"
        return None

    def metrics(self) -> dict[str, int]:
        """The counters of the object origin, the caches and the metadata follower."""
        served = {} if self._origin is None else origin_metrics(self._origin)
        served |= {"metadata_restarts": self._follower.restarts, "metadata_rereads": self._follower.rereads}
        served |= {} if self._snapshots is None else self._snapshots.metrics()
        behind = self._follower.not_ready()
        served |= {} if behind is None else {"metadata_partitions_not_ready": len(behind)}
        return served | ({} if self._resolving is None else self._resolving.metrics())

    def reload(self, config: ShimConfig) -> None:
        """Takes the certificate, the signing key, topic policies and client limits of ``config``, which names the same store.

        Raises ConfigurationError, and changes nothing then.
        """
        if self._signer is not None:
            _check_whole_objects(self._signer, config)
        context = origin_context(config)
        limits, known = self._limits(config), self._limits(self._config)
        self.strategy.reload(limits, config.client_limits)
        if self._origin is not None:
            self._origin.use(context)
            self._origin.rotate(config.signing_key, max(known.longest_url_ttl, limits.longest_url_ttl))
        self._config = config

    def _limits(self, config: ShimConfig) -> GrantLimits:
        return GrantLimits(
            config.range_bytes,
            config.max_grant_bytes,
            config.url_ttl,
            config.allow_plaintext_data_keys,
            config.lookup_timeout,
            whole_objects=self._signer is not None and not self._signer.binds_ranges,
            whole_object_urls=config.whole_object_urls,
            topics=topic_policies(config.topic_policies),
        )

    def close(self) -> None:
        """Ends all threads and frees the origin's port. May be called twice, and without :meth:`start`."""
        self._follower.close()
        if self._origin is not None:
            self._origin.stop()
        self._workers.shutdown(cancel_futures=True)
        self._kept_workers.shutdown(cancel_futures=True)
        self._reads.shutdown(cancel_futures=True)
        self._objects.close()


def granting_signer(config: ShimConfig) -> ObjectSigner | None:
    """Returns the signer of the store's URLs; ``None`` if the shim serves the objects, and without a store.

    The check of grants that a start and a reload share. Raises ConfigurationError for a store that no plugin signs URLs for,
    for an object origin that other machines reach, and for URLs of whole objects that no setting and no topic policy permits.
    """
    if config.store is None:
        return None
    scheme = urlsplit(config.store).scheme
    if scheme in _SERVED_SCHEMES:
        _check_origin(config)
        return None
    if scheme not in signer_schemes():
        schemes = ", ".join(sorted({*_SERVED_SCHEMES, *signer_schemes()}))
        raise ConfigurationError(f"URLs can be signed for these stores only: {schemes}")
    signer = load_signer(config.store, config.store_options)
    _check_whole_objects(signer, config)
    return signer


def _check_whole_objects(signer: ObjectSigner, config: ShimConfig) -> None:
    policies = topic_policies(config.topic_policies).values
    if not (signer.binds_ranges or config.whole_object_urls or any(one.grant == "whole-object" for one in policies)):
        scheme = urlsplit(config.store or "").scheme
        raise ConfigurationError(
            f"URLs of a {scheme}:// store permit reading whole objects; set --whole-object-urls or a topic policy to allow that"
        )


def _check_origin(config: ShimConfig) -> None:
    host, _ = parse_address(config.origin_listen)
    if not config.test_origin and not _is_loopback(host):
        raise ConfigurationError(
            f"the object origin of a file: store listens on loopback addresses only, not on {host}; use a store that serves "
            "clients itself, or --test-origin for tests"
        )


def _snapshots(config: ShimConfig, clock: Clock) -> MetadataSnapshots | None:
    if config.metadata_snapshot_dir is None:
        return None
    return MetadataSnapshots(
        Path(config.metadata_snapshot_dir),
        config.follower_settings,
        config.metadata_topic,
        interval=config.metadata_snapshot_interval,
        clock=clock,
    )


def _origin(objects: RemoteObjectStore, config: ShimConfig, clock: Clock) -> ObjectOrigin:
    host, port = parse_address(config.origin_listen)
    secret = config.signing_key or secrets.token_bytes(_SECRET_BYTES)
    try:
        return ObjectOrigin(
            objects,
            secret,
            host=host,
            port=port,
            advertised_url=config.origin_public_url,
            clock=clock,
            ssl_context=origin_context(config),
        )
    except ValueError as error:
        raise ConfigurationError(f"the object origin: {error}") from None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def origin_metrics(origin: ObjectOrigin) -> dict[str, int]:
    """Requests, bytes of bodies, and answers by status of an origin, under plain names."""
    done = origin.statistics()
    statuses = {f"origin_status.{int(status)}": count for status, count in sorted(done.statuses.items())}
    return {"origin_requests": done.requests, "origin_bytes": done.bytes_sent, **statuses}
