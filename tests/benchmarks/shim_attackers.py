"""Peers that misuse a shim, in a process of their own with a low priority: six kinds, and one that is used if it is named.

Arguments: a topic, the number of peers, their kinds with commas, the number of loopback addresses of each kind (0: all peers
use 127.0.0.1), and perhaps a CA's file, which turns TLS on. Each line of standard input, ``on PORT`` or ``off``, opens all
peers to a shim or closes them, and ``tell`` changes nothing. The answer is a line of JSON: the connections that were made so
far, the answers that flooding peers read, and the CPU seconds of this process.

=============== ==========================================================================================================
kind            does
=============== ==========================================================================================================
slow            sends a valid request at one byte per second
half_open       connects and sends nothing; with TLS the first bytes of a handshake
flooding        sends the request that costs a shim most, ApiVersions, 20 at a time, and reads all answers
never_reading   sends 100 Fetch requests of 1 MB each, and reads no answer
reconnecting    connects, sends one ApiVersions, reads the answer and connects again at once
admitted        is admitted by a Metadata request, then floods like ``flooding``
metadata        the same with Metadata requests for no topic, whose answers the shim rewrites; not one of the six
=============== ==========================================================================================================

A peer that the shim closes comes back after a second, one that reconnects after a tenth of it. Linux routes all of 127.0.0.0/8
to this machine.
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
from kafka_remote_client.shim.client_admission import QUESTION, QUESTION_VERSION
from tests.benchmarks.running import cpu_seconds

__all__ = ["ALL_KINDS", "KINDS", "fetch_request", "metadata_request", "versions_request"]

KINDS = ("slow", "half_open", "flooding", "never_reading", "reconnecting", "admitted")
ALL_KINDS = (*KINDS, "metadata")
_HOST = "127.0.0.1"
_VERSION = 12
_FLOOD = 20
_UNREAD = 100
_ANSWER_BYTES = 1 << 20
_BACK_SECONDS = 1.0
_STORM_BACK_SECONDS = 0.1
_NICE = 5
"""Added to the priority of the benchmark."""
_OPENING_SECONDS = 10.0
_CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def fetch_request(topic: str, number: int) -> bytes:
    """A Fetch of partition 0 from its beginning, by the topic's name."""
    wanted = fetch.FetchPartition(0, 0, _ANSWER_BYTES, current_leader_epoch=-1, last_fetched_epoch=-1)
    request = fetch.FetchRequest((fetch.FetchTopic((wanted,), topic),), max_wait_ms=500, min_bytes=1, max_bytes=_ANSWER_BYTES)
    header = encode_request_header(RequestHeader(ApiKey.FETCH, _VERSION, number, "attacker"))
    return frame(header, fetch.encode_request(request, _VERSION))


def versions_request(number: int) -> bytes:
    """ApiVersions."""
    return frame(encode_request_header(RequestHeader(ApiKey.API_VERSIONS, 0, number, "attacker")), b"")


def metadata_request() -> bytes:
    """Metadata for no topic, which admits a client."""
    return frame(encode_request_header(RequestHeader(ApiKey.METADATA, QUESTION_VERSION, 0, "attacker")), QUESTION)


async def _read_answer(reader: asyncio.StreamReader) -> None:
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    await reader.readexactly(length)


@attrs.define
class _Counts:
    attempts: int = 0
    connections: int = 0
    answers: int = 0


class _Peers:
    def __init__(self, topic: str, peers: int, kinds: Sequence[str], addresses: int, tls: ssl.SSLContext | None) -> None:
        self._port = 0
        self._addresses = addresses
        self._tls = tls
        self._kinds = kinds
        self._count = peers // len(kinds)
        self._tasks: list[asyncio.Task[None]] = []
        self._fetches = b"".join(fetch_request(topic, number) for number in range(_UNREAD))
        self._versions = b"".join(versions_request(number) for number in range(_FLOOD))
        self.counts = _Counts()

    async def on(self, port: int) -> None:
        self._port = port
        loop = asyncio.get_running_loop()
        before = self.counts.attempts
        for kind in self._kinds:
            back = _STORM_BACK_SECONDS if kind == "reconnecting" else _BACK_SECONDS
            for number in range(self._count):
                self._tasks.append(loop.create_task(self._again(getattr(self, f"_{kind}"), self._address(kind, number), back)))
        with contextlib.suppress(TimeoutError):  # a shim may leave connections in its backlog
            async with asyncio.timeout(_OPENING_SECONDS):
                while self.counts.attempts < before + len(self._tasks):
                    await asyncio.sleep(0.05)

    def _address(self, kind: str, number: int) -> str:
        return f"127.0.{ALL_KINDS.index(kind) + 1}.{number % self._addresses + 1}" if self._addresses else _HOST

    async def off(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _again(self, kind: Callable[[str], Coroutine[None, None, None]], address: str, back: float) -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                await kind(address)
            await asyncio.sleep(back)

    async def _connected(self, address: str, *, secure: bool = True) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = self._tls if secure else None
        name = None if tls is None else "localhost"
        try:
            opened = await asyncio.open_connection(
                _HOST, self._port, local_addr=(address, 0), ssl=tls, server_hostname=name, limit=64 << 10
            )
        finally:
            self.counts.attempts += 1
        self.counts.connections += 1
        return opened

    async def _slow(self, address: str) -> None:
        reader, writer = await self._connected(address)
        try:
            for byte in versions_request(0) * 100:
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
            await self._flood(reader, writer, self._versions)
        finally:
            writer.transport.abort()

    async def _admitted(self, address: str) -> None:
        await self._flood_admitted(address, self._versions)

    async def _metadata(self, address: str) -> None:
        await self._flood_admitted(address, metadata_request() * _FLOOD)

    async def _flood_admitted(self, address: str, requests: bytes) -> None:
        reader, writer = await self._connected(address)
        try:
            writer.write(metadata_request())
            await _read_answer(reader)
            await self._flood(reader, writer, requests)
        finally:
            writer.transport.abort()

    async def _flood(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: bytes) -> None:
        while True:
            writer.write(requests)
            for _ in range(_FLOOD):
                await _read_answer(reader)
                self.counts.answers += 1

    async def _reconnecting(self, address: str) -> None:
        while True:
            reader, writer = await self._connected(address)
            try:
                writer.write(versions_request(0))
                await _read_answer(reader)
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
        word, *port = line.split()
        if word != "tell":
            await (peers.on(int(port[0])) if word == "on" else peers.off())
        told = {**attrs.asdict(peers.counts), "cpu_seconds": cpu_seconds(process=os.getpid())}
        print(json.dumps(told), flush=True)
    await peers.off()


def main() -> None:
    topic, peers, kinds, addresses, *ca = sys.argv[1:]
    os.nice(_NICE)
    settings = {"security.protocol": "ssl", "ssl.ca.location": str(Path(ca[0]))} if ca else None
    context = None if settings is None else client_context(settings)
    asyncio.run(_obey(_Peers(topic, int(peers), kinds.split(","), int(addresses), context)))


if __name__ == "__main__":
    main()
