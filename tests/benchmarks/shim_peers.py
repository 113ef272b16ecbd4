"""What stands around a measured shim, each in a process of its own: a broker that answers at once, a bare splice, and the shim.

Arguments: the role and its settings as JSON. Prints the port. Each line of standard input is answered by a line of JSON with
the shim's counters; the end of the input stops it.

====== =================================================================================================================
role   does
====== =================================================================================================================
broker answers a Heartbeat with as many bytes as its body says, a Fetch with the bounds of a log, Metadata with itself
splice copies bytes both ways between a client and the broker, and looks at none: the least that any proxy has to do
shim   the product's shim before the broker, with a tier of one segment in memory; looks up and signs as it always does
====== =================================================================================================================
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from kafka_remote_client.protocol.headers import RequestHeader, encode_request_header, encode_response_header
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, encode_response
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.shim.client_admission import QUESTION_VERSION
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from kafka_remote_client.shim.resolving_tier import ResolvingTier
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.signing import UrlSigner
from tests.benchmarks.running import ROOT
from tests.support.tier import LAYOUT, TIP, Tier, batch

__all__ = ["FETCH_VERSION", "Peer", "heartbeat", "location_request"]

FETCH_VERSION = 13
_HEARTBEAT = 12
_HEAD = struct.Struct(">hhi")
_HOST = "127.0.0.1"
_RECORDS = 100


def heartbeat(size: int) -> bytes:
    """A request whose answer has ``size`` bytes behind its header."""
    body = struct.pack(">hhihi", _HEARTBEAT, 0, 1, -1, size)
    return struct.pack(">i", len(body)) + body


def location_request() -> bytes:
    """A Fetch that asks for the location of the tier's first record."""
    root, tags = TaggedDialect().request_tags(LocationRequest(("ApacheKafkaV1",), True, 8 << 20))
    asked = fetch.FetchPartition(TIP.partition, 0, 1 << 20, current_leader_epoch=9, last_fetched_epoch=-1, tags=tags)
    topic = fetch.FetchTopic((asked,), TIP.topic, TIP.topic_id)
    request = fetch.FetchRequest((topic,), max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation_level=1, tags=root)
    header = encode_request_header(RequestHeader(ApiKey.FETCH, FETCH_VERSION, 1, "bench"))
    body = bytes(header) + fetch.encode_request(request, FETCH_VERSION)
    return struct.pack(">i", len(body)) + body


class Peer:
    """A process of this module. ``pid`` and ``port`` are known at once. A context manager."""

    def __init__(self, role: str, **settings: Any) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.shim_peers", role, json.dumps(settings)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.port = int(self._line())

    def counters(self) -> dict[str, int]:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told: dict[str, int] = json.loads(self._line())
        return told

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a process of the benchmark ended")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate(timeout=60)


class _Broker(asyncio.Protocol):
    def __init__(self) -> None:
        self._kept = b""
        ends = {"high_watermark": _RECORDS, "last_stable_offset": _RECORDS, "log_start_offset": 0}
        data = fetch.PartitionData(TIP.partition, **ends, aborted_transactions=(), records=b"")
        bounds = fetch.FetchResponse((fetch.FetchTopicResponse((data,), TIP.topic, TIP.topic_id),))
        served = MetadataResponse((MetadataBroker(1, _HOST, 9092),), ())
        self._bounds = _with_header(ApiKey.FETCH, FETCH_VERSION, fetch.encode_response(bounds, FETCH_VERSION))
        self._served = _with_header(ApiKey.METADATA, QUESTION_VERSION, encode_response(served, QUESTION_VERSION))
        self._answers: dict[int, bytes] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        kept, at = self._kept + data, 0
        while len(kept) - at >= 4 and len(kept) - at - 4 >= (length := int.from_bytes(kept[at : at + 4], "big")):
            self._answer(kept[at + 4 : at + 4 + length])
            at += 4 + length
        self._kept = kept[at:]

    def _answer(self, request: bytes) -> None:
        api_key, _, correlation_id = _HEAD.unpack_from(request)
        if api_key == ApiKey.FETCH:
            body = self._bounds
        elif api_key == ApiKey.METADATA:
            body = self._served
        else:
            size = int.from_bytes(request[-4:], "big")
            body = self._answers.setdefault(size, bytes(size))
        if not self._transport.is_closing():
            self._transport.write(struct.pack(">ii", len(body) + 4, correlation_id) + body)


def _with_header(api_key: int, version: int, body: bytes) -> bytes:
    return bytes(encode_response_header(api_key, version, 0))[4:] + body


class _Splice(asyncio.Protocol):
    """One side of two; what comes goes to the other, which is read no more while this one cannot write."""

    def __init__(self, port: int | None, other: _Splice | None = None) -> None:
        self._port = port
        self.other = other
        self.transport: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(1 << 20)
        if self._port is not None:
            self.other = _Splice(None, self)
            self._connecting = asyncio.get_running_loop().create_task(self._connect(self._port, self.other))

    async def _connect(self, port: int, other: _Splice) -> None:
        await asyncio.get_running_loop().create_connection(lambda: other, _HOST, port)
        assert other.transport is not None
        other.transport.writelines(self._early)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._early.append(data)
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def _listens(make: Callable[[], asyncio.Protocol]) -> None:
    server = await asyncio.get_running_loop().create_server(make, _HOST, 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, _until_the_end, dict)
    server.close()


def _until_the_end(counters: Callable[[], Mapping[str, int]]) -> None:
    for _ in sys.stdin:
        print(json.dumps(dict(counters())), flush=True)


def _shim(settings: dict[str, Any]) -> None:
    tier, store = Tier(), RemoteLogMetadataStore()
    tier.add([batch(0, 50), batch(50, _RECORDS - 50)], number=1, indexed=(1,))
    store._caches[TIP], store._by_id[TIP.topic_id, TIP.partition] = tier.cache, TIP
    signer = UrlSigner(b"only for benchmarks", "http://origin:1", SystemClock())
    resolving = ResolvingTier(store, tier.store, LAYOUT, signer, url_ttl=60, ready=lambda _tip: True)
    counters = Counters()
    with ThreadPoolExecutor(16) as workers, ThreadPoolExecutor(16) as kept:
        strategy = GrantingBroker(resolving, GrantLimits(), counters, workers, kept)
        config = ShimConfig(max_connections_per_ip=10_000, max_unadmitted_connections=10_000, **settings)
        with Shim(config, strategy=strategy, counters=counters) as shim:
            print(shim.bootstrap_servers.rpartition(":")[2], flush=True)
            _until_the_end(shim.metrics)


def main() -> None:
    role, settings = sys.argv[1], json.loads(sys.argv[2])
    if role == "broker":
        asyncio.run(_listens(_Broker))
    elif role == "splice":
        asyncio.run(_listens(lambda: _Splice(settings["port"])))
    else:
        _shim(settings)


if __name__ == "__main__":
    main()
