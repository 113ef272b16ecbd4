"""Peers that misuse a shim, in a process of their own: four kinds, each from a loopback address of its own.

Arguments: the port of the shim, a topic, the number of peers, their kinds with commas, and perhaps a CA's file, which
turns TLS on. Each line of standard input, ``on`` or ``off``, opens all peers or closes them, and is answered by a line of JSON:
how many connections were made so far, the answers that flooding peers read, and the CPU seconds of this process.

=============== ==========================================================================================================
kind            does
=============== ==========================================================================================================
slow            sends a valid request at one byte per second
half_open       connects and sends nothing; with TLS the first bytes of a handshake
flooding        sends the request that costs a shim most, ApiVersions, 20 at a time, and reads all answers
never_reading   sends 100 Fetch requests of 1 MB each, and reads no answer
=============== ==========================================================================================================

A peer that the shim closes comes back after a second. Linux routes all of 127.0.0.0/8 to this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import struct
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import attrs

from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import RequestHeader, encode_request_header, frame
from kafka_remote_client.protocol.tls import client_context
from tests.benchmarks.running import cpu_seconds

__all__ = ["KINDS", "fetch_request"]

KINDS = ("slow", "half_open", "flooding", "never_reading")
_HOST = "127.0.0.1"
_VERSION = 12
_FLOOD = 20
_UNREAD = 100
_ANSWER_BYTES = 1 << 20
_BACK_SECONDS = 1.0
_CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def fetch_request(topic: str, number: int) -> bytes:
    """A Fetch of partition 0 from its beginning, by the topic's name."""
    wanted = fetch.FetchPartition(0, 0, _ANSWER_BYTES, current_leader_epoch=-1, last_fetched_epoch=-1)
    request = fetch.FetchRequest((fetch.FetchTopic((wanted,), topic),), max_wait_ms=500, min_bytes=1, max_bytes=_ANSWER_BYTES)
    header = encode_request_header(RequestHeader(ApiKey.FETCH, _VERSION, number, "attacker"))
    return frame(header, fetch.encode_request(request, _VERSION))


def _versions(number: int) -> bytes:
    return frame(encode_request_header(RequestHeader(ApiKey.API_VERSIONS, 0, number, "attacker")), b"")


@attrs.define
class _Counts:
    connections: int = 0
    answers: int = 0


class _Peers:
    def __init__(self, port: int, topic: str, peers: int, kinds: Sequence[str], tls: ssl.SSLContext | None) -> None:
        self._port = port
        self._tls = tls
        self._kinds = kinds
        self._count = peers // len(kinds)
        self._tasks: list[asyncio.Task[None]] = []
        self._fetches = b"".join(fetch_request(topic, number) for number in range(_UNREAD))
        self._flood = b"".join(_versions(number) for number in range(_FLOOD))
        self.counts = _Counts()

    async def on(self) -> None:
        behaviour = (self._slow, self._half_open, self._flooding, self._never_reading)
        loop = asyncio.get_running_loop()
        before = self.counts.connections
        for number, (name, kind) in enumerate(zip(KINDS, behaviour, strict=True)):
            for _ in range(self._count if name in self._kinds else 0):
                self._tasks.append(loop.create_task(self._again(kind, f"127.0.0.{number + 2}")))
        while self.counts.connections < before + len(self._tasks):
            await asyncio.sleep(0.05)

    async def off(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _again(self, kind: Callable[[str], Coroutine[None, None, None]], address: str) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                await kind(address)
            await asyncio.sleep(_BACK_SECONDS)

    async def _connected(self, address: str, *, secure: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = self._tls if secure else None
        name = None if tls is None else "localhost"
        opened = await asyncio.open_connection(
            _HOST, self._port, local_addr=(address, 0), ssl=tls, server_hostname=name, limit=64 << 10
        )
        self.counts.connections += 1
        return opened

    async def _slow(self, address: str) -> None:
        reader, writer = await self._connected(address)
        try:
            for byte in _versions(0) * 100:
                writer.write(bytes((byte,)))
                await writer.drain()
                if reader.at_eof():
                    return
                await asyncio.sleep(1)
        finally:
            writer.transport.abort()

    async def _half_open(self, address: str) -> None:
        reader, writer = await self._connected(address, secure=False)
        try:
            if self._tls is not None:
                writer.write(_CLIENT_HELLO)
            await reader.read()
        finally:
            writer.transport.abort()

    async def _flooding(self, address: str) -> None:
        reader, writer = await self._connected(address)
        try:
            while True:
                writer.write(self._flood)
                for _ in range(_FLOOD):
                    (length,) = struct.unpack(">i", await reader.readexactly(4))
                    await reader.readexactly(length)
                    self.counts.answers += 1
        finally:
            writer.transport.abort()

    async def _never_reading(self, address: str) -> None:
        _, writer = await self._connected(address)
        try:
            writer.transport.pause_reading()
            writer.write(self._fetches)
            while not writer.is_closing():
                await asyncio.sleep(1)
        finally:
            writer.transport.abort()


async def _obey(peers: _Peers) -> None:
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        await (peers.on() if line.strip() == "on" else peers.off())
        told = {**attrs.asdict(peers.counts), "cpu_seconds": cpu_seconds(process=os.getpid())}
        print(json.dumps(told), flush=True)
    await peers.off()


def main() -> None:
    port, topic, peers, kinds, *ca = sys.argv[1:]
    os.nice(19)
    settings = {"security.protocol": "ssl", "ssl.ca.location": str(Path(ca[0]))} if ca else None
    context = None if settings is None else client_context(settings)
    asyncio.run(_obey(_Peers(int(port), topic, int(peers), kinds.split(","), context)))


if __name__ == "__main__":
    main()
