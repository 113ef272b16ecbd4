"""Compares the memory of a shim with many misbehaving peers with its bound.

::

    python -m tests.support.resident_memory --peers 10000 --seed 7

    peers, in this process ──► a shim, a process of its own ──► a broker that answers with 256 KiB, in this process

===================== ===================================================================================================
kind                  each peer
===================== ===================================================================================================
never read            sends 20 to 60 requests and reads no answer
never begin           connects with TLS and sends a part of its ClientHello, or nothing
never finish          sends its ClientHello, reads the first byte of the answer and nothing more
===================== ===================================================================================================

The seed decides what each peer sends. The bound is ``max_buffered_bytes``, 64 MiB, and 64 KiB for each connection. A peer takes
two descriptors of the shim if it never reads, and the limit of descriptors of a process also limits the number of peers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import resource
import secrets
import selectors
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, encode_response
from kafka_remote_client.shim.client_admission import QUESTION_VERSION
from kafka_remote_client.shim.config import parse_address
from tests.support.certificates import Authority
from tests.support.client_hello import client_hello
from tests.support.ledger import ledger
from tests.support.shim_process import ShimProcess
from tests.support.waiting import wait_until

__all__ = ["KINDS", "Figures", "main", "measured"]

KINDS = ("never read", "never begin", "never finish")
_BUFFERED = 32 << 20
_ANSWER = bytes(256 << 10)
_METADATA = struct.pack(">h", ApiKey.METADATA)
_SERVED = b"\0" + encode_response(MetadataResponse((MetadataBroker(1, "broker", 9092),), ()), QUESTION_VERSION)
"""The answer that admits a client, after the correlation id: no tags, and a broker."""
_HEARTBEAT = struct.Struct(">ihhih")
"""The whole request: its length, key and version, its number, and no client id."""
_OTHER_DESCRIPTORS = 200
_PEERS_PER_SECOND = 300
_PATIENCE_SECONDS = 600.0


@attrs.frozen
class Figures:
    """``peak``: the most bytes that the shim's process has had. ``before``: without a peer. ``bound``: allowed."""

    peers: int
    before: int
    peak: int
    bound: int

    @property
    def counts(self) -> dict[str, int | float]:
        """For the ledger, in MiB and KiB."""
        return {
            "peers": self.peers,
            "resident_mib": self.peak >> 20,
            "allowed_mib": self.bound >> 20,
            "kib_per_peer": round((self.peak - self.before) / self.peers / 1024, 1),
        }


@contextlib.contextmanager
def _flooding_broker(backlog: int) -> Iterator[str]:
    """A broker that admits each client and answers its requests with 256 KiB. Yields its address."""
    loop = asyncio.new_event_loop()
    serving = asyncio.run_coroutine_threadsafe
    thread = threading.Thread(target=loop.run_forever, daemon=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(length)
                answered = _SERVED if request[:2] == _METADATA else _ANSWER
                writer.write(struct.pack(">i", 4 + len(answered)) + request[4:8] + answered)
                await writer.drain()
        writer.close()

    async def stop(server: asyncio.Server) -> None:
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for one in others:
            one.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread.start()
    server = serving(asyncio.start_server(answer, "127.0.0.1", 0, backlog=backlog), loop).result(60)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        serving(stop(server), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def memory_of(pid: int, field: str) -> int:
    """Bytes: ``VmRSS`` is the memory of the process now, ``VmHWM`` the most that it has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def _descriptors(shim: ShimProcess) -> int:
    return len(list(Path(f"/proc/{shim.pid}/fd").iterdir()))


def _first_bytes(kind: str, drawn: random.Random, hello: bytes) -> bytes:
    if kind == "never read":
        return b"".join(_HEARTBEAT.pack(10, 12, 0, number, -1) for number in range(drawn.randint(20, 60)))
    return hello[: drawn.randrange(len(hello))] if kind == "never begin" else hello


def measured(kind: str, peers: int, seed: int) -> Figures:
    """Starts shim, broker and peers, and returns when the peers have done what their kind does."""
    drawn, hello = random.Random(seed), client_hello()
    limits: dict[str, Any] = dict.fromkeys(("max_connections", "max_connections_per_ip"), 2 * peers)
    limits |= {"max_unadmitted_connections": 2 * peers, "max_buffered_bytes": _BUFFERED}
    with contextlib.ExitStack() as opened:
        if kind != "never read":
            directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
            Authority().issue().write(directory / "shim.pem")
            limits |= {"ssl_certificate": str(directory / "shim.pem")}
        broker = opened.enter_context(_flooding_broker(peers))
        shim = opened.enter_context(
            ShimProcess(bootstrap_servers=broker, admission_timeout=600, handshake_timeout=600, **limits)
        )
        before = memory_of(shim.pid, "VmRSS")
        answered = opened.enter_context(selectors.DefaultSelector())
        for _ in range(peers):
            peer = opened.enter_context(socket.create_connection(parse_address(shim.bootstrap_servers), timeout=60))
            with contextlib.suppress(OSError):
                peer.sendall(_first_bytes(kind, drawn, hello))
            answered.register(peer, selectors.EVENT_READ)
        if kind == "never finish":
            wait_until(lambda: len(answered.select(0)) == peers, "all hellos to be answered", seconds=_PATIENCE_SECONDS)
        elif kind == "never begin":
            wait_until(lambda: _descriptors(shim) >= peers, "the peers to be accepted", seconds=_PATIENCE_SECONDS)
        # Nothing tells when the bytes of the last peers have been read, or the last buffers are full. The shim has a few
        # descriptors of its own, which come and go, so a few peers may not be accepted yet.
        threading.Event().wait(peers / _PEERS_PER_SECOND)
        return Figures(peers, before, memory_of(shim.pid, "VmHWM"), _BUFFERED + (64 << 20) + peers * (64 << 10))


def _most_peers(kind: str) -> int:
    """Raises the limit of descriptors to what this process may have, and returns for how many peers that is enough."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return (hard - _OTHER_DESCRIPTORS) // (2 if kind == "never read" else 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit status 1 where the memory exceeds its bound."""
    parser = argparse.ArgumentParser(
        prog="make resident-memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, help="a new one by default")
    asked = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    clock, exceeded = SystemClock(), 0
    for kind in KINDS:
        started = clock.monotonic()
        figures = measured(kind, min(asked.peers, _most_peers(kind)), seed)
        seconds = round(clock.monotonic() - started)
        ledger(
            "resident-memory",
            describes=("kafka_remote_client/shim",),
            seed=seed,
            seconds=seconds,
            peers_that=kind,
            **figures.counts,
        )
        exceeded += figures.peak > figures.bound
    return min(exceeded, 1)


if __name__ == "__main__":
    sys.exit(main())
