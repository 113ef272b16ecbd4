"""What all cells of one worker share: an embedded cluster with its streams, and stores that do what a scenario tells them to.

::

    consumer under test ─► shim ─► embedded cluster                    plain consumer ─► shim ─► embedded cluster
          │  signed URLs lead to                                        (the oracle: the same stream by the broker's own reads)
          ├─ presigned ─► scripted origin that checks signatures
          ├─ s3        ─► scripted origin, path-style
          └─ local     ─► a copy of the tier's logs

A :class:`Rig` is the part that one cell has to itself: which store the consumer is led to, what goes wrong, and how to prove
that it did.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from unittest import mock

import confluent_kafka
from confluent_kafka import TopicPartition

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import ByteRange, NotRemote, SegmentLocation
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.shim.embedded import EmbeddedCluster
from kafka_remote_client.shim.http_server import ConnectionListener, HttpRequest
from kafka_remote_client.shim.signing import UrlSigner
from kafka_remote_client.testing import Answer, ScriptedOrigin, TcpFaultProxy
from tests.faults.streams import Segment, Stream, mixed_segments, write_stream
from tests.support.embedded_topics import by_consume, plain_settings, read_to_ends
from tests.support.history import History
from tests.support.invariants.oracle import Oracle
from tests.support.recorder import recorded
from tests.support.store_client import CERTIFICATES

__all__ = ["BUCKET", "Bench", "Rig", "ranged"]

BUCKET = "tier"
SECRET = b"a secret of thirty-two bytes ...."
_RANGE_BYTES = 1_500
_GRANT_BYTES = 6_000

Tamper = Callable[[SegmentLocation], SegmentLocation | NotRemote]


class ShiftedClock(SystemClock):
    """The system's, with a time of day that can be moved."""

    shift_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.shift_ms


class BenchSigner:
    """Signs URLs of wherever the cell's store is. ``change`` spoils them."""

    binds_ranges = True

    def __init__(self) -> None:
        self.clock = ShiftedClock()
        self.reset()

    def reset(self) -> None:
        """Signs as it should, at no place yet."""
        self.base_url = "http://127.0.0.1:1"
        self.secret = SECRET
        self.change: Callable[[str], str] = lambda url: url

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        signed = UrlSigner(self.secret, self.base_url, self.clock).sign(object_key, byte_range, ttl_seconds, etag)
        return SignedUrl(self.change(signed.url))


class Bench:
    """One per worker. Starts with ``with``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "tier"
        self.scratch = directory
        self.signer = BenchSigner()
        self.cluster = EmbeddedCluster(
            self.directory, range_bytes=_RANGE_BYTES, max_grant_bytes=_GRANT_BYTES, expire_local=True, signer=self.signer
        )
        self._objects: dict[str, bytes] = {}
        self.store_clock = ShiftedClock()
        self.origins = {
            "presigned": ScriptedOrigin(self._objects, secret=SECRET, clock=self.store_clock),
            "s3": ScriptedOrigin(self._objects),
        }
        self._tls: dict[str, ScriptedOrigin] = {}
        self._streams: dict[str, Stream] = {}
        self._oracles: dict[tuple[str, str], Oracle] = {}
        self._makers: dict[str, Callable[[], Sequence[Segment]]] = {"mixed": lambda: mixed_segments(0)}
        self._cells = 0

    def __enter__(self) -> Self:
        self.cluster.start()
        for origin in self.origins.values():
            origin.start()
        return self

    def __exit__(self, *_: object) -> None:
        for origin in (*self.origins.values(), *self._tls.values()):
            origin.stop()
        self.cluster.close()

    def knows(self, name: str, make: Callable[[], Sequence[Segment]]) -> None:
        """A stream that is written when it is first asked for."""
        self._makers.setdefault(name, make)

    def stream(self, name: str) -> Stream:
        """The stream; its logs lie in the tier, and as objects in both origins."""
        if name not in self._streams:
            made = self._streams[name] = write_stream(self.cluster, f"stream-{name}", self._makers[name]())
            for key, log in made.logs.items():
                self._objects[key] = self._objects[f"{BUCKET}/{key}"] = log
            for origin in self.origins.values():
                origin.objects.update(self._objects)
        return self._streams[name]

    def oracle(self, name: str, isolation: str) -> Oracle:
        """What a plain consumer reads of the stream, once."""
        if (name, isolation) not in self._oracles:
            stream, history = self.stream(name), History()
            config = plain_settings(self.cluster, isolation_level=isolation, check_crcs=True)
            with recorded(confluent_kafka.Consumer, config, history, "plain") as consumer:
                consumer.assign([TopicPartition(stream.topic, 0, 0)])
                read_to_ends(consumer, by_consume)
            self._oracles[name, isolation] = Oracle.of(history)
        return self._oracles[name, isolation]

    def tls_origin(self, certificate: str) -> ScriptedOrigin:
        """An origin behind a certificate of tests/fetchers/tls."""
        if certificate not in self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / f"{certificate}.pem")
            made = ScriptedOrigin(self._objects, ssl_context=context)
            made.start()
            self._tls[certificate] = made
        return self._tls[certificate]

    @contextmanager
    def rig(self, kind: str, stream: str) -> Iterator[Rig]:
        """What one cell has to itself. Everything is as before when it ends."""
        made = self.stream(stream)
        self._cells += 1
        with ExitStack() as stack:
            yield Rig(self, kind, made, self.scratch / f"cell-{self._cells}", stack)
        for origin in (*self.origins.values(), *self._tls.values()):
            origin.reset()
            origin.objects.clear()
            origin.objects.update(self._objects)
        self.origins["presigned"].use_secret(SECRET)
        self.signer.reset()
        self.store_clock.shift_ms = 0


class Rig:
    """One cell's store, and what goes wrong with it."""

    def __init__(self, bench: Bench, kind: str, stream: Stream, scratch: Path, stack: ExitStack) -> None:
        self.bench = bench
        self.kind = kind
        self.stream = stream
        self.stack = stack
        self.signer = bench.signer
        self.settings: dict[str, Any] = {}
        self.proofs: list[Callable[[Mapping[str, Any]], object]] = []
        self.tamper: Tamper | None = None
        self._scratch = scratch
        self._replaced: list[str] = []
        if kind == "local":
            for key, log in stream.logs.items():
                self.local_file(key).parent.mkdir(parents=True, exist_ok=True)
                self.local_file(key).write_bytes(log)
        else:
            self.origin = bench.origins[kind]
            self.origin.reset()
            self.reach(self.origin.url)

    # -- where the store is ------------------------------------------------------------------------------------------------

    def reach(self, url: str) -> None:
        """Leads the consumer there."""
        authority = url.partition("://")[2]
        self.signer.base_url = url
        self.settings |= {
            "remote.storage.fetcher.allowed.hosts": authority,
            "remote.storage.fetcher.s3.endpoint.url": url,
            "remote.storage.fetcher.ssl.ca.location": str(CERTIFICATES / "ca.pem"),
        }

    def local_file(self, key: str) -> Path:
        """The cell's own copy of a log."""
        return self._scratch / key

    def proxied(self) -> TcpFaultProxy:
        """Puts a proxy between consumer and store."""
        proxy = self.stack.enter_context(TcpFaultProxy(("127.0.0.1", self.origin.port)))
        self.reach(f"http://{proxy.authority}")
        return proxy

    def refused_port(self) -> int:
        """A port that nobody listens on, and nobody else can take."""
        keeper = self.stack.enter_context(socket.socket())
        keeper.bind(("127.0.0.1", 0))
        port: int = keeper.getsockname()[1]
        return port

    def full_port(self) -> int:
        """A port whose backlog is full: the kernel drops further SYNs, as a black hole does."""
        full = self.stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port: int = full.getsockname()[1]
        for _ in range(2):
            filler = self.stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        return port

    def silent_listener(self) -> ConnectionListener:
        """Takes connections and never says a word."""
        stopped = threading.Event()
        listener = ConnectionListener(lambda _connection: stopped.wait() and None)
        listener.start()
        self.stack.callback(listener.stop)
        self.stack.callback(stopped.set)
        return listener

    def names(self, host: str, answer: Callable[[], list[Any]]) -> None:
        """Lets a host's name resolve to whatever ``answer`` gives or raises, within this process."""
        real = socket.getaddrinfo

        def resolve(asked: Any, *args: Any, **kwargs: Any) -> list[Any]:
            if asked in (host, host.encode()):
                self.resolved += 1
                return answer()
            return real(asked, *args, **kwargs)

        self.resolved = 0
        self.stack.enter_context(mock.patch("socket.getaddrinfo", resolve))

    # -- what goes wrong ---------------------------------------------------------------------------------------------------

    def answers(self, answer: Answer, *, times: int | None = None, after: int = 0) -> None:
        """The store answers so, once ``after`` requests are through. The proof is that it did."""
        self.origin.rule(answer, matches=_after(after), times=times)
        self.proofs.append(lambda _metrics: self.origin.fired)

    def at_request(self, number: int, action: Callable[[], object]) -> None:
        """Does something when the store gets its ``number``-th request, before that is answered. To be called before others."""
        seen = iter(range(1, 1 << 30))
        lock = threading.Lock()

        def count(_request: HttpRequest) -> bool:
            with lock:
                if next(seen) == number:
                    action()
                    self.done = True
            return False

        self.done = False
        self.origin.rule(Answer(), matches=count)
        self.proofs.append(lambda _metrics: self.done)

    def replace(self, segment: int, change: Callable[[bytes], bytes | None]) -> None:
        """Changes a log as a whole; ``None`` removes it."""
        key = self.stream.keys[segment]
        changed = change(self.stream.logs[key])
        if self.kind == "local":
            if changed is None:
                self.local_file(key).unlink()
            else:
                self.local_file(key).write_bytes(changed)
            return
        objects = self.origin.objects
        for name in (key, f"{BUCKET}/{key}"):
            if changed is None:
                objects.pop(name, None)
            else:
                objects[name] = changed
        if not self._replaced:
            self.proofs.append(lambda _metrics: [e for e in self.origin.exchanges if e.key.endswith(tuple(self._replaced))])
        self._replaced.append(key)

    def damage(self, segment: int, number: int, change: Callable[[bytes], bytes], *, times: int | None = None) -> None:
        """Changes a batch; what is shorter is filled with zeros. ``times``: only in so many answers."""
        key = self.stream.keys[segment]
        batches = self.stream.batches(key)
        true = batches[number]
        damaged = change(true)
        assert damaged != true
        assert len(damaged) <= len(true), "the damaged batch must fit in the place of the true one"
        damaged += bytes(len(true) - len(damaged))
        start = sum(map(len, batches[:number]))
        if self.kind == "local":
            self.replace(segment, lambda log: log[:start] + damaged + log[start + len(true) :])
            return

        def overlaps(request: HttpRequest) -> bool:
            first, _, last = request.headers.get("range", "").removeprefix("bytes=").partition("-")
            return key in request.target.replace("%3D", "=") and int(first) <= start and start + len(true) - 1 <= int(last)

        self.origin.rule(Answer(transform=lambda data: data.replace(true, damaged)), matches=overlaps, times=times)
        self.proofs.append(lambda _metrics: [e for e in self.origin.fired if e.sent])

    # -- the consumer ------------------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Of the fetcher of this cell's kind."""
        if self.kind == "local":
            return {"remote.storage.fetcher.local.root": str(self._scratch)}
        if self.kind == "s3":
            return {
                "remote.storage.fetcher.store.url": f"s3://{BUCKET}",
                "remote.storage.fetcher.s3.path.style": True,
                "remote.storage.fetcher.s3.region": "us-east-1",
                **self.settings,
            }
        return {name: value for name, value in self.settings.items() if ".s3." not in name}


def ranged(request: HttpRequest) -> ByteRange:
    """The range that a request asks for."""
    first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
    return ByteRange(int(first), int(last) + 1)


def _after(count: int) -> Callable[[HttpRequest], bool]:
    seen = iter(range(1 << 30))
    lock = threading.Lock()

    def matches(_request: HttpRequest) -> bool:
        with lock:
            return next(seen) >= count

    return matches
