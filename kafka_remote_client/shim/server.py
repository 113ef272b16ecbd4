"""A shim in a separate thread, for tests, the demo and the command line."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.broker_strategy import BrokerStrategy, PassThrough
from kafka_remote_client.shim.checks import check_brokers
from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.exposition import exposition
from kafka_remote_client.shim.health import Health
from kafka_remote_client.shim.management import Management
from kafka_remote_client.shim.proxy import Proxy
from kafka_remote_client.shim.settings import RELOADED, SHIM_SETTINGS
from kafka_remote_client.shim.shim_tier import ShimTier, granting_signer

__all__ = ["Shim"]

_ALIVE_SECONDS = 5.0


class Shim:
    """A proxy of a Kafka cluster: forwards all requests, and grants locations of tiered records to clients that request them.

    Without a ``strategy`` it grants locations of the store in ``config``; with neither it is a plain proxy. May be started
    and stopped once. A context manager. ``health``: the checks of the management listener, also available without one.
    """

    def __init__(
        self,
        config: ShimConfig,
        *,
        strategy: BrokerStrategy | None = None,
        counters: Counters | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._counters = counters or Counters()
        self._clock = clock or SystemClock()
        self._tier: ShimTier | None = None
        self._strategy = strategy
        self._grants = strategy is None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._proxy: Proxy | None = None
        self._stopping: asyncio.Event | None = None
        self._drains = False
        self._management: Management | None = None
        self._failure: BaseException | None = None
        self.health = Health(
            alive=self._alive,
            listening=self._listening,
            brokers=self._broker_answers,
            tier=lambda: None if self._tier is None else self._tier.check(),
            clock=self._clock,
        )
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-remote-shim", daemon=True)

    def start(self) -> Self:
        """Binds, starts following the tier, and returns when clients can connect. Raises ConfigurationError."""
        if self._grants and self._config.store is not None:
            self._tier = ShimTier(self._config, self._counters, self._clock)
        try:
            if self._tier is not None:
                self._tier.start()
                self._strategy = self._tier.strategy
            self._thread.start()
            self._started.wait()
            self._raise_failure()
            self._manage()
        except BaseException:
            self.stop()
            raise
        return self

    def reload(self, config: ShimConfig) -> list[str]:
        """Applies new certificates, limits, deadlines and the signing key, for new connections.

        Topic policies and client limits hold for all connections. What clients have overdrawn stays.

        Returns the names of settings that differ and need a restart. Raises ConfigurationError where a start would, for values,
        TLS and grants, with all of ``config`` and with the part of it that is applied; it changes nothing then. It contacts no
        broker and no store. Raises RuntimeError before :meth:`start`.
        """
        if self._proxy is None or self._loop is None:
            raise RuntimeError("the shim is not started")
        known = self._config
        differ = [name for name in SHIM_SETTINGS if _differs(name, known, config)]
        taken = attrs.evolve(known, **{name: getattr(config, name) for name in differ if name in RELOADED})
        if (known.ssl_certificate is None) != (taken.ssl_certificate is None):
            raise ConfigurationError("ssl_certificate cannot be set or removed without a restart")
        if known.signing_key is not None and taken.signing_key is None:
            raise ConfigurationError("signing_key cannot be removed without a restart: clients still hold URLs that it signed")
        self._proxy.reloaded(config)
        if self._grants:
            granting_signer(config)
        context = self._proxy.reloaded(taken)
        if self._tier is not None:
            self._tier.reload(taken)
        self._config = taken
        self._loop.call_soon_threadsafe(self._proxy.reload, context)
        return [name for name in differ if name not in RELOADED]

    def drain(self) -> None:
        """Accepts no connection, completes requests in progress within the drain time-out, then stops like :meth:`stop`."""
        self._drains = True
        self.stop()

    def stop(self) -> None:
        """Ends all connections and threads; returns when they are gone. May be called twice."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread.ident is not None:
            self._thread.join()
        if self._tier is not None:
            self._tier.close()
        if self._management is not None:
            self._management.stop()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the shim has stopped; True when it has."""
        self._thread.join(arguments.patience(timeout))
        return not self._thread.is_alive()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients. Raises RuntimeError before :meth:`start`."""
        if self._proxy is None:
            raise RuntimeError("the shim is not started")
        host, port = self._proxy.listeners.bootstrap
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def origin_url(self) -> str | None:
        """The URL of the shim's object origin; ``None`` if it has none."""
        return None if self._tier is None else self._tier.origin_url

    @property
    def management_url(self) -> str | None:
        """Where the management listener serves its pages; ``None`` without one."""
        if self._management is None:
            return None
        host, port = self._management.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def wait_ready(self, seconds: float) -> bool:
        """Waits until the tier's metadata is read and locations are granted; False after the time-out."""
        arguments.duration(seconds, "seconds")
        return self._tier is None or self._tier.wait_ready(seconds)

    def metrics(self) -> dict[str, int]:
        """The counters of :class:`~kafka_remote_client.shim.counters.Counters`, and of the object origin if there is one."""
        gauges = {} if self._proxy is None else self._proxy.gauges()
        return self._counters.snapshot() | gauges | ({} if self._tier is None else self._tier.metrics())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _manage(self) -> None:
        if self._config.management_listen is None:
            return
        host, port = parse_address(self._config.management_listen)
        management = Management(host, port, self.health.pages, self._exposition)
        try:
            management.start()
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {self._config.management_listen}: {error.strerror}") from None
        self._management = management

    def _exposition(self) -> bytes:
        return exposition(self.metrics(), self._counters.lookups.snapshot(), self._counters.granted.snapshot())

    def _alive(self) -> str | None:
        """Whether the event loop does not answer in time."""
        answered = threading.Event()
        try:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            return "the shim has stopped"
        return None if answered.wait(_ALIVE_SECONDS) else "the event loop does not answer"

    def _broker_answers(self) -> str | None:
        if self._proxy is None:
            return "the shim is not started"
        return check_brokers(self._config, self._clock, self._proxy.broker_tls, self._proxy.listeners.servers)

    def _listening(self) -> str | None:
        return "the shim is stopping" if self._proxy is None or self._proxy.stopping else None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in start()
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        proxy = Proxy(self._config, self._strategy or PassThrough(), self._counters, self._clock)
        try:
            proxy.start()
            self._proxy = proxy
            self._started.set()
            await self._stopping.wait()
            if self._drains:
                await proxy.drain()
        finally:
            await proxy.stop()


def _differs(name: str, one: ShimConfig, other: ShimConfig) -> bool:
    """Whether a setting has another value. The order of patterns counts, as the first one that fits decides."""
    values = (getattr(one, name), getattr(other, name))
    if SHIM_SETTINGS[name].by_pattern:
        values = (list(values[0].items()), list(values[1].items()))
    return bool(values[0] != values[1])
