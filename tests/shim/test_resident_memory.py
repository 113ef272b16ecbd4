"""A thousand peers that never read, or never finish a TLS handshake: the memory of the process stays within its bound.

The shim is a process of its own. Its bound is ``max_buffered_bytes``, 64 MiB, and 64 KiB for each connection that it accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, encode_response
from kafka_remote_client.shim.admission import QUESTION_VERSION
from kafka_remote_client.shim.config import parse_address
from tests.shim.test_connection import heartbeat
from tests.support.certificates import Authority
from tests.support.ledger import ledger
from tests.support.shim_process import ShimProcess
from tests.support.waiting import wait_until

PEERS = int(os.environ.get("KAFKA_REMOTE_PEERS", "1000"))
"""As a campaign 10,000, which takes 20,000 descriptors and a few more in two processes."""
CAMPAIGN = "KAFKA_REMOTE_PEERS" in os.environ
BUFFERED = 32 << 20
ALLOWED = BUFFERED + (64 << 20) + PEERS * (64 << 10)
ANSWER = bytes(256 << 10)
REQUESTS = 40
METADATA = struct.pack(">h", ApiKey.METADATA)
SERVED = b"\0" + encode_response(MetadataResponse((MetadataBroker(1, "broker", 9092),), ()), QUESTION_VERSION)
"""The answer that admits a client, after the correlation id: no tags, and a broker."""
SECONDS = 3 + PEERS / 1000
"""For which all peers do what they do; their turns come one after the other."""


@contextlib.contextmanager
def flooding_broker() -> Iterator[str]:
    """A broker that admits each client and answers its requests with 256 KiB. Yields its address."""
    loop = asyncio.new_event_loop()
    serving = asyncio.run_coroutine_threadsafe
    thread = threading.Thread(target=loop.run_forever, daemon=True)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(length)
                answered = SERVED if request[:2] == METADATA else ANSWER
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
    server = serving(asyncio.start_server(answer, "127.0.0.1", 0, backlog=PEERS), loop).result(60)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        serving(stop(server), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def resident(shim: ShimProcess) -> int:
    """Bytes of memory that the shim's process has had at most."""
    lines = Path(f"/proc/{shim.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def descriptors(shim: ShimProcess) -> int:
    return len(list(Path(f"/proc/{shim.pid}/fd").iterdir()))


@pytest.mark.fault("S12")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
@pytest.mark.parametrize("kind", ["never read", "never finish a handshake"])
def test_memory_of_the_process_keeps_its_bound(kind: str, tmp_path: Path) -> None:
    limits: dict[str, Any] = dict.fromkeys(("max_connections", "max_connections_per_ip"), 2 * PEERS)
    limits |= {"max_unadmitted_connections": 2 * PEERS, "max_buffered_bytes": BUFFERED}
    sent = b"".join(heartbeat(number) for number in range(REQUESTS))
    if kind == "never finish a handshake":
        Authority().issue().write(tmp_path / "shim.pem")
        limits |= {"ssl_certificate": str(tmp_path / "shim.pem")}
        sent = b"\x16\x03\x01\x02\x00\x01"
    with flooding_broker() as broker, contextlib.ExitStack() as opened:
        shim = opened.enter_context(
            ShimProcess(bootstrap_servers=broker, admission_timeout=600, handshake_timeout=600, **limits)
        )
        few = descriptors(shim)
        for _ in range(PEERS):
            peer = opened.enter_context(socket.create_connection(parse_address(shim.bootstrap_servers), timeout=60))
            with contextlib.suppress(OSError):
                peer.sendall(sent)
        never = threading.Event()
        if kind == "never finish a handshake":
            wait_until(lambda: descriptors(shim) >= few + PEERS, "all peers to be accepted")
        never.wait(SECONDS)
        most = resident(shim)
        if CAMPAIGN:
            figures = {"resident_mib": most >> 20, "allowed_mib": ALLOWED >> 20, "descriptors": descriptors(shim)}
            ledger("resident-memory", describes=("kafka_remote_client/shim",), peers=PEERS, peers_that=kind, **figures)
        assert most <= ALLOWED
