"""The cost of a shim: added latency, requests and bytes for each second of a core, grants, and memory of idle connections.

    python -m tests.benchmarks.shim [--json FILE] [--seconds 1.5] [--idle 1000] [--grants 1 100 1000]

A broker that answers at once, a bare splice, the shim and this client are processes on one machine, without TLS unless the row
says so. Figures for a core are those of the proxy's own CPU time, so other load and the client's share do not count.

================== ======================================================================================================
row                is
================== ======================================================================================================
``latency``        median time of a request with an answer of 200 B, one at a time: directly, by the splice, by the shim
``answers``        answers of a size per second of CPU time, and their MB, by the splice and by the shim
``grants``         grants per second of CPU time and per second, each connection with one question at a time
``idle``           KiB of resident memory for each idle, admitted connection, plain and with TLS
================== ======================================================================================================

Prints the table on standard error and JSON on standard output. The exit status is 1 with one line for each missed target.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kafka_remote_client.protocol.tls import client_context
from tests.benchmarks.running import cpu_seconds, machine
from tests.benchmarks.shim_peers import Peer, heartbeat, location_request
from tests.support.certificates import Authority

__all__ = ["TARGETS", "missed"]

_HOST = "127.0.0.1"
_SIZES = (200, 16 << 10, 1 << 20)
_CONNECTIONS = 4
_DEPTH = 16
_GRANT_CONNECTIONS = [1, 100, 1_000]
_WARM_SECONDS = 0.3
_AT_ONCE = 50

TARGETS = {
    "added_ms": ("at most", 1.0),
    "requests_share_200": ("at least", 0.1),
    "bytes_share_1048576": ("at least", 0.5),
    "grants_per_core": ("at least", 300.0),
    "idle_kib_plain": ("at most", 64.0),
    "idle_kib_tls": ("at most", 128.0),
}
"""Milliseconds added to the median; shares of the splice's figures; the fewest grants per second of a core; KiB."""


def missed(figures: dict[str, float]) -> list[str]:
    """A line for each target that the figures miss."""
    lines = []
    for name, (kind, bound) in TARGETS.items():
        found = figures[name]
        if found > bound if kind == "at most" else found < bound:
            lines.append(f"missed: {name} is {found:.3g}, not {kind} {bound:g}")
    return lines


class _Client(asyncio.Protocol):
    """A client that is admitted by one request. On command, it repeats that request and counts whole answers."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._request = b""
        self.answers = 0
        self.admitted = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(heartbeat(10))

    def ask(self, request: bytes, depth: int) -> None:
        """Keeps ``depth`` requests in progress; an empty request stops that."""
        self._request = request
        if request:
            self.transport.write(request * depth)

    def data_received(self, data: bytes) -> None:
        came = 0
        self._kept += data
        while len(self._kept) >= 4 and len(self._kept) - 4 >= int.from_bytes(self._kept[:4], "big"):
            del self._kept[: 4 + int.from_bytes(self._kept[:4], "big")]
            came += 1
        self.answers += came
        if came and not self.admitted.done():
            self.admitted.set_result(None)
        if came and self._request:
            self.transport.write(self._request * came)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.admitted.done():
            self.admitted.set_exception(error or ConnectionResetError("the connection was closed"))


async def _connected(port: int, count: int, tls: ssl.SSLContext | None = None) -> list[_Client]:
    """Admitted idle clients."""
    made: list[_Client] = []
    loop = asyncio.get_running_loop()
    for first in range(0, count, _AT_ONCE):
        some = [_Client() for _ in range(first, min(count, first + _AT_ONCE))]
        for client in some:
            await loop.create_connection(lambda one=client: one, _HOST, port, ssl=tls, server_hostname=_HOST if tls else None)
        await asyncio.gather(*(one.admitted for one in some))
        made += some
    return made


async def _rate(port: int, proxy: int, connections: int, request: bytes, depth: int, seconds: float) -> tuple[float, float]:
    """Answers per second of the proxy's CPU time, and per second."""
    clients = await _connected(port, connections)
    try:
        for one in clients:
            one.ask(request, depth)
        await asyncio.sleep(_WARM_SECONDS)
        before, cpu, began = sum(one.answers for one in clients), cpu_seconds(process=proxy), time.perf_counter()
        await asyncio.sleep(seconds)
        while sum(one.answers for one in clients) == before:  # a short run on a busy machine
            await asyncio.sleep(_WARM_SECONDS)
        took, used = time.perf_counter() - began, cpu_seconds(process=proxy) - cpu
        answers = sum(one.answers for one in clients) - before
        return answers / max(used, 0.01), answers / took
    finally:
        for one in clients:
            one.ask(b"", 0)
            one.transport.abort()


async def _median_ms(port: int, requests: int) -> float:
    reader, writer = await asyncio.open_connection(_HOST, port)
    took = []
    for _ in range(requests):
        began = time.perf_counter()
        writer.write(heartbeat(200))
        await reader.readexactly(4 + 4 + 200)
        took.append(time.perf_counter() - began)
    writer.close()
    await writer.wait_closed()
    return statistics.median(took) * 1000


async def _idle_kib(shim: Peer, connections: int, tls: ssl.SSLContext | None) -> float:
    before = _resident_kib(shim.pid)
    clients = await _connected(shim.port, connections, tls)
    held = _resident_kib(shim.pid) - before
    for one in clients:
        one.transport.abort()
    return held / connections


def _resident_kib(process: int) -> int:
    lines = Path("/proc", str(process), "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def _measured(seconds: float, idle: int, grants: list[int]) -> dict[str, float]:
    found: dict[str, float] = {}
    with Peer("broker") as broker, Peer("splice", port=broker.port) as splice:
        shim_settings: dict[str, Any] = {"bootstrap_servers": f"{_HOST}:{broker.port}"}
        with Peer("shim", **shim_settings) as shim:
            requests = int(500 * seconds)
            for name, port in (("direct", broker.port), ("splice", splice.port), ("shim", shim.port)):
                found[f"latency_ms_{name}"] = await _median_ms(port, requests)
            found["added_ms"] = found["latency_ms_shim"] - found["latency_ms_direct"]
            for size in _SIZES:
                depth = _DEPTH if size < 1 << 20 else 2
                for name, peer in (("splice", splice), ("shim", shim)):
                    rate, _ = await _rate(peer.port, peer.pid, _CONNECTIONS, heartbeat(size), depth, seconds)
                    found[f"requests_per_core_{name}_{size}"] = rate
                    found[f"mb_per_core_{name}_{size}"] = rate * size / 1e6
                shares = found[f"requests_per_core_shim_{size}"] / found[f"requests_per_core_splice_{size}"]
                found[f"requests_share_{size}"] = found[f"bytes_share_{size}"] = shares
            for connections in grants:
                before = shim.counters()
                core, wall = await _rate(shim.port, shim.pid, connections, location_request(), 1, seconds)
                after = shim.counters()
                if after.get("locations_granted", 0) <= before.get("locations_granted", 0) or _refused(after):
                    raise RuntimeError(f"not granted: {_refused(after)}")
                found[f"grants_per_core_{connections}"], found[f"grants_per_second_{connections}"] = core, wall
        found["grants_per_core"] = min(found[f"grants_per_core_{connections}"] for connections in grants)
        with Peer("shim", **shim_settings) as shim:
            found["idle_kib_plain"] = await _idle_kib(shim, idle, None)
        with tempfile.TemporaryDirectory() as directory:
            authority, certificate = Authority(), Path(directory, "shim.pem")
            authority.issue().write(certificate)
            authority.write(Path(directory, "ca.pem"))
            context = client_context({"security.protocol": "ssl", "ssl.ca.location": str(Path(directory, "ca.pem"))})
            with Peer("shim", **shim_settings, ssl_certificate=str(certificate)) as shim:
                found["idle_kib_tls"] = await _idle_kib(shim, idle, context)
    return found


def _refused(counters: dict[str, int]) -> dict[str, int]:
    return {name: number for name, number in counters.items() if name.startswith("locations_refused")}


def _table(found: dict[str, float], grants: list[int]) -> str:
    lines = [
        f"latency   directly {found['latency_ms_direct']:.3f} ms, by the splice {found['latency_ms_splice']:.3f} ms, "
        f"by the shim {found['latency_ms_shim']:.3f} ms"
    ]
    for size in _SIZES:
        told = [
            f"{name} {found[f'requests_per_core_{name}_{size}']:.0f}/s {found[f'mb_per_core_{name}_{size}']:.0f} MB/s"
            for name in ("splice", "shim")
        ]
        lines.append(f"answers   {size} B for a core: {', '.join(told)}, share {found[f'requests_share_{size}']:.2f}")
    for connections in grants:
        core, wall = found[f"grants_per_core_{connections}"], found[f"grants_per_second_{connections}"]
        lines.append(f"grants    {connections} connections: {core:.0f}/s for a core, {wall:.0f}/s")
    lines.append(f"idle      {found['idle_kib_plain']:.1f} KiB plain, {found['idle_kib_tls']:.1f} KiB with TLS")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file to write the JSON to as well")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each measurement")
    parser.add_argument("--idle", type=int, default=1_000, help="idle connections")
    parser.add_argument("--grants", type=int, nargs="+", default=_GRANT_CONNECTIONS, help="connections that ask for grants")
    given = parser.parse_args()
    found = asyncio.run(_measured(given.seconds, given.idle, given.grants))
    lines = missed(found)
    report = {"machine": machine(), "figures": found, "missed": lines}
    print(_table(found, given.grants), *lines, sep="\n", file=sys.stderr)
    print(json.dumps(report, indent=2))
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=2))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
