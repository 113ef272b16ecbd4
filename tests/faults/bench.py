"""The shared parts of all cells of a worker: an embedded cluster with its streams, and stores that follow a scenario.

::

    consumer under test ─► shim ─► embedded cluster                    plain consumer ─► shim ─► embedded cluster
          │  signed URLs lead to                                        (the oracle: the same stream by the broker's own reads)
          ├─ presigned ─► scripted origin that checks signatures
          ├─ s3        ─► scripted origin, path-style
          └─ local     ─► a copy of the tier's logs

A :class:`Rig` is the private part of a cell: the store that the consumer uses, the fault, and the proof that the fault
fired.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self
from unittest import mock

import attrs
import confluent_kafka
from confluent_kafka import TopicPartition

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import SegmentGrant, TaggedDialect, _grant_fields
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.http_server import ConnectionListener, HttpRequest
from kafka_remote_client.shim.signing import UrlSigner
from kafka_remote_client.testing import Answer, Ending, Exchange
from tests.faults.observed import Observation, Observed, WatchedOrigin, WatchedProxy
from tests.faults.streams import Segment, Stream, mixed_segments, write_stream
from tests.support.embedded_topics import by_consume, plain_settings, read_to_ends
from tests.support.full_backlog import full_port
from tests.support.history import History, Served, Source
from tests.support.invariants.oracle import Oracle
from tests.support.recorder import recorded
from tests.support.served import BrokerLog, store_log
from tests.support.store_client import CERTIFICATES

__all__ = ["BUCKET", "Bench", "Change", "GrantChange", "Matches", "Rig", "changed_by", "ranged"]

BUCKET = "tier"
SECRET = b"a secret of thirty-two bytes ...."
_RANGE_BYTES = 1_500
_GRANT_BYTES = 6_000

Matches = Callable[[HttpRequest], bool]
GrantChange = Callable[[SegmentGrant, fetch.PartitionData, int], tuple[SegmentGrant, fetch.PartitionData]]
"""The shim's replacement for a grant, and for the partition's answer around it, for a requested offset."""
Change = Callable[[fetch.PartitionData, int], fetch.PartitionData | None]
"""The shim's answer for the partition for a requested offset; None = it leaves the partition out."""


class ShiftedClock(SystemClock):
    """The system's clock, with a time of day that can be moved."""

    shift_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.shift_ms


class BenchSigner:
    """Signs URLs of the cell's store. ``change`` damages them."""

    binds_ranges = True

    def __init__(self) -> None:
        self.clock = ShiftedClock()
        self.reset()

    def reset(self) -> None:
        """Signs correctly; no store is set yet."""
        self.base_url = "http://127.0.0.1:1"
        self.secret = SECRET
        self.change: Callable[[str], str] = lambda url: url

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        signed = UrlSigner(self.secret, self.base_url, self.clock).sign(object_key, byte_range, ttl_seconds, etag)
        return SignedUrl(self.change(signed.url))


class Bench:
    """One per worker. ``with`` starts it."""

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
            "presigned": WatchedOrigin(self._objects, secret=SECRET, clock=self.store_clock),
            "s3": WatchedOrigin(self._objects),
        }
        self._tls: dict[str, WatchedOrigin] = {}
        self._streams: dict[str, Stream] = {}
        self._oracles: dict[tuple[str, str], Oracle] = {}
        self._makers: dict[str, Callable[[], Sequence[Segment]]] = {"mixed": lambda: mixed_segments(0)}
        self._cells = 0

    def __enter__(self) -> Self:
        self.cluster.start()
        self.broker = BrokerLog(self.cluster)
        for origin in self.origins.values():
            origin.start()
        return self

    def __exit__(self, *_: object) -> None:
        for origin in (*self.origins.values(), *self._tls.values()):
            origin.stop()
        self.cluster.close()

    def add_stream(self, name: str, make: Callable[[], Sequence[Segment]]) -> None:
        """Returns a stream, and writes it at the first call."""
        self._makers.setdefault(name, make)

    def stream(self, name: str) -> Stream:
        """Returns the stream; its logs are in the tier, and are objects in both origins."""
        if name not in self._streams:
            made = self._streams[name] = write_stream(self.cluster, f"stream-{name}", self._makers[name]())
            for key, log in made.logs.items():
                self._objects[key] = self._objects[f"{BUCKET}/{key}"] = log
            for origin in self.origins.values():
                origin.objects.update(self._objects)
        return self._streams[name]

    def oracle(self, name: str, isolation: str) -> Oracle:
        """Returns the records that a plain consumer reads from the stream, once."""
        if (name, isolation) not in self._oracles:
            stream, history = self.stream(name), History()
            config = plain_settings(self.cluster, isolation_level=isolation, check_crcs=True)
            with recorded(confluent_kafka.Consumer, config, history, "plain") as consumer:
                consumer.assign([TopicPartition(stream.topic, 0, 0)])
                read_to_ends(consumer, by_consume)
            self._oracles[name, isolation] = Oracle.of(history)
        return self._oracles[name, isolation]

    @contextmanager
    def logged(self, rig: Rig, history: History) -> Iterator[None]:
        """Records what the broker sends, and at the end what the store sent; files have no such log."""
        key = (rig.stream.topic, 0)
        history.add(Served, source=Source.BROKER, key=key)
        self.broker.record(history)
        yield
        self.broker.record(None)
        for action in rig.on_close:
            action()
        if rig.kind != "local":
            exchanges = [exchange for origin in self.all_origins() for exchange in origin.exchanges]
            history.add(Served, source=Source.STORE, key=key, offsets=store_log(exchanges, rig.stream.logs))

    def tls_origin(self, certificate: str) -> WatchedOrigin:
        """An origin behind a certificate of tests/fetchers/tls."""
        if certificate not in self._tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATES / f"{certificate}.pem")
            made = WatchedOrigin(self._objects, ssl_context=context)
            made.start()
            self._tls[certificate] = made
        return self._tls[certificate]

    def all_origins(self) -> list[WatchedOrigin]:
        """The origins of all kinds and certificates so far."""
        return [*self.origins.values(), *self._tls.values()]

    @property
    def objects(self) -> Mapping[str, bytes]:
        """The objects as they were written."""
        return self._objects

    @contextmanager
    def rig(self, kind: str, stream: str) -> Iterator[Rig]:
        """The private part of one cell. Its end restores everything."""
        made = self.stream(stream)
        self._cells += 1
        with ExitStack() as stack:
            yield Rig(self, kind, made, self.scratch / f"cell-{self._cells}", stack)
        for origin in self.all_origins():
            origin.reset()
            origin.observed = None
            origin.objects.clear()
            origin.objects.update(self._objects)
        self.origins["presigned"].use_secret(SECRET)
        self.signer.reset()
        self.store_clock.shift_ms = 0


class Rig:
    """One cell's store, and its fault."""

    def __init__(self, bench: Bench, kind: str, stream: Stream, scratch: Path, stack: ExitStack) -> None:
        self.bench = bench
        self.kind = kind
        self.stream = stream
        self.stack = stack
        self.signer = bench.signer
        self.settings: dict[str, Any] = {}
        self.proofs: list[Callable[[], object]] = []
        self.observed = Observed()
        self.upstream = {int(bench.cluster.broker_bootstrap_servers.rpartition(":")[2])}
        """Ports that servers of this process connect to."""
        self.on_close: list[Callable[[], object]] = []
        """Runs after the consumer is closed and before its threads are counted."""
        self._scratch = scratch
        if kind == "local":
            stack.enter_context(self.observed.files(stream.logs))
            for key, log in stream.logs.items():
                self.local_file(key).parent.mkdir(parents=True, exist_ok=True)
                self.local_file(key).write_bytes(log)
        else:
            self.origin = bench.origins[kind]
            self.origin.reset()
            self.watch(self.origin)
            self.reach(self.origin.url)

    def watch(self, origin: WatchedOrigin) -> None:
        """Records the origin's answers."""
        origin.observed, origin.truth = self.observed, self.bench.objects

    def fired(self) -> bool:
        """Returns whether the fault changed an answer and all its other effects happened. Call it after the close."""
        return bool(self.observed.changes()) and all(proof() for proof in self.proofs)

    # -- where the store is ------------------------------------------------------------------------------------------------

    def reach(self, url: str) -> None:
        """Directs the consumer to that origin."""
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

    def proxied(self) -> WatchedProxy:
        """Puts a proxy between consumer and store."""
        proxy = self.stack.enter_context(WatchedProxy(("127.0.0.1", self.origin.port), self.observed))
        self.stack.enter_context(self.observed.connects(proxy.address[1]))
        self.reach(f"http://{proxy.authority}")
        self.upstream.add(self.origin.port)
        return proxy

    def refused_port(self) -> int:
        """A reserved port without a listener."""
        keeper = self.stack.enter_context(socket.socket())
        keeper.bind(("127.0.0.1", 0))
        port: int = keeper.getsockname()[1]
        self.stack.enter_context(self.observed.connects(port))
        return port

    def full_port(self) -> int:
        """A port that neither accepts nor refuses connections."""
        port = self.stack.enter_context(full_port())
        self.stack.enter_context(self.observed.connects(port))
        return port

    def silent_listener(self) -> ConnectionListener:
        """Accepts connections and never answers."""
        stopped = threading.Event()
        listener = ConnectionListener(lambda _connection: stopped.wait() and None, name="scripted-origin")
        listener.start()
        self.stack.callback(listener.stop)
        self.stack.callback(stopped.set)
        return listener

    def names(self, host: str, answer: Callable[[], list[Any]]) -> None:
        """Makes a host's name resolve to the result or error of ``answer``, within this process."""
        real = socket.getaddrinfo

        def resolve(asked: Any, *args: Any, **kwargs: Any) -> list[Any]:
            if asked not in (host, host.encode()):
                return real(asked, *args, **kwargs)
            given: list[object] = []
            self.observed.add(lambda: Observation("name", host, ["127.0.0.1"], given))
            found = answer()
            given += found
            return found

        self.stack.enter_context(mock.patch("socket.getaddrinfo", resolve))

    # -- faults ------------------------------------------------------------------------------------------------------------

    def answers(self, answer: Answer, *, times: int | None = None, after: int = 0, to: Matches = lambda _: True) -> None:
        """The store answers like that after ``after`` requests whose answers this would have changed."""
        spoils = changed_by(answer, self.bench.objects, after)
        self.origin.rule(answer, matches=lambda request: to(request) and spoils(request), times=times)
        self._expect_change(answer)

    def requested_again(self, once: Answer, after: int) -> Matches:
        """One request gets ``once``. Returns a matcher for later requests for the same range."""
        self.answers(once, times=1, after=after)

        def asks_for_the_same(request: HttpRequest) -> bool:
            return any(
                before.request is not request
                and Exchange(request, 0, once).key == before.key
                and ranged(request) == ranged(before.request)
                for before in self.origin.exchanges
                if before.answer is once
            )

        return asks_for_the_same

    def cut_short(self) -> Matches:
        """The third answer is cut in its body. Returns a matcher for a request for the rest of it."""
        cut = Answer(ending=Ending.CUT, at=150)
        self.answers(cut, times=1, after=2)

        def asks_for_the_rest(request: HttpRequest) -> bool:
            for before in self.origin.exchanges:
                if before.answer is cut and before.request is not request:
                    same = Exchange(request, 0, cut).key == before.key
                    return same and ranged(request).end == ranged(before.request).end
            return False

        return asks_for_the_rest

    def _expect_change(self, answer: Answer) -> None:
        """The proof is that this scripted answer differed from the true one."""
        self.proofs.append(lambda: [one for one in self.observed.changes() if one.by is answer])

    def change_grants(self, change: GrantChange) -> None:
        """The shim changes its grant."""
        self.change_answers(partial(_with_changed_grant, change))

    def change_answers(self, change: Change) -> None:
        """The shim changes its answer, with or without a grant."""
        real, observed = GrantingBroker.answer, self.observed

        async def answer(shim: GrantingBroker, request: ClientRequest, ask: Ask) -> bytes | None:
            true = await real(shim, request, ask)
            if true is None:
                return None
            given = _changed(request, true, change)
            observed.add(Observation("shim", "a location", true, given))
            return given

        self.stack.enter_context(mock.patch.object(GrantingBroker, "answer", answer))

    def at_request(self, number: int, action: Callable[[], object]) -> None:
        """Acts when the store gets its ``number``-th request, before the answer. Call it before other methods."""
        seen = iter(range(1, 1 << 30))
        self.when(lambda _request: next(seen) == number, action)

    def when(self, matches: Matches, action: Callable[[], object]) -> None:
        """Acts when the store gets the first request that matches, before the answer."""
        lock, done = threading.Lock(), threading.Event()

        def look(request: HttpRequest) -> bool:
            with lock:
                if not done.is_set() and matches(request):
                    action()
                    done.set()
            return False

        self.origin.rule(Answer(), matches=look)
        self.proofs.append(done.is_set)

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

    def damage(self, segment: int, number: int, change: Callable[[bytes], bytes], *, times: int | None = None) -> None:
        """Changes a batch, and fills a shorter one with zeros. ``times``: the number of changed answers."""
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

        spoilt = Answer(transform=lambda data: data.replace(true, damaged))
        self.origin.rule(spoilt, matches=overlaps, times=times)
        self._expect_change(spoilt)

    # -- the consumer ------------------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """The settings of the fetcher of this cell's kind."""
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
    """The range of a request."""
    first, _, last = request.headers["range"].removeprefix("bytes=").partition("-")
    return ByteRange(int(first), int(last) + 1)


def changed_by(answer: Answer, truth: Mapping[str, bytes], after: int = 0) -> Matches:
    """Matches requests for which this answer differs from the true one, except for the first ``after`` of them.

    Ranges are requested in parallel, so threads determine which of them is third. A range that ends where the answer
    stops, or before, gets all its bytes, so a fault that happens once would have no effect on it.
    """
    seen = iter(range(1 << 30))
    lock = threading.Lock()

    def matches(request: HttpRequest) -> bool:
        asked = ranged(request)
        if _is_true(answer, truth[Exchange(request, 0, answer).key][asked.start : asked.end]):
            return False
        with lock:
            return next(seen) >= after

    return matches


def _is_true(answer: Answer, true: bytes) -> bool:
    """Returns whether the client gets the true bytes anyway, with their own head."""
    if answer.ending is not Ending.COMPLETE and not answer.chunked:
        return answer.at is None or answer.at >= len(true)
    return answer.transform is not None and answer == Answer(transform=answer.transform) and answer.transform(true) == true


def _with_changed_grant(change: GrantChange, data: fetch.PartitionData, offset: int) -> fetch.PartitionData:
    """Returns the false grant instead of the true one; an answer without a grant does not change."""
    grant = TaggedDialect().read_grant(data.tags, CHUNKED_FORMATS)
    if grant is None:
        return data
    grant, data = change(grant, data, offset)
    return attrs.evolve(data, tags=_grant_fields(grant))


def _changed(request: ClientRequest, told: bytes, change: Change) -> bytes:
    """Returns the answer to a location request with the partition's part changed."""
    version = request.header.api_version
    ((asked,),) = [topic.partitions for topic in fetch.decode_request(request.body, version).topics]
    response = fetch.decode_response(told, version)
    ((topic, data),) = [(topic, data) for topic in response.responses for data in topic.partitions]
    changed = change(data, asked.fetch_offset)
    if changed is data:
        return told
    topic = attrs.evolve(topic, partitions=() if changed is None else (changed,))
    return fetch.encode_response(attrs.evolve(response, responses=(topic,)), version)
