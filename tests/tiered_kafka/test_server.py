"""A connection that does not speak Kafka ends, and the others go on. The stop ends all."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import select
import socket
import struct
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from kafka_remote_client.protocol import api_versions
from kafka_remote_client.tiered_kafka import TieredCluster
from kafka_remote_client.tiered_kafka import server as module
from kafka_remote_client.tiered_kafka.server import Server
from tests.support.left_open import left_open


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=1) as running:
        yield running


def answer(cluster: TieredCluster, data: bytes) -> bytes:
    """What the first broker sends for these bytes: one frame without its length, or nothing if it closes the connection."""
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as peer, peer.makefile("rb") as received:
        peer.sendall(data)
        length = received.read(4)
        return received.read(int.from_bytes(length, "big")) if length else b""


def framed(key: int, version: int, body: bytes = b"") -> bytes:
    request = struct.pack(">hhih", key, version, 7, -1) + body
    return struct.pack(">i", len(request)) + request


@pytest.mark.parametrize(
    "data",
    [framed(3, 99), framed(9999, 0), framed(8, 0), framed(3, 1, b"\xff"), struct.pack(">i", 1 << 30)],
    ids=["version", "key", "old", "body", "length"],
)
def test_unknown_request_ends_the_connection(cluster: TieredCluster, data: bytes) -> None:
    assert answer(cluster, data) == b""


def test_versions_are_told_also_to_newer_clients(cluster: TieredCluster) -> None:
    told = answer(cluster, framed(18, 0))
    body = answer(cluster, framed(18, 77, b"\0"))
    assert told[:4] == body[:4] == struct.pack(">i", 7)
    old, new = api_versions.decode_response(told[4:], 0), api_versions.decode_response(body[4:], 4)
    assert new.error_code == 35
    assert old.api_keys == new.api_keys
    assert {entry.api_key for entry in old.api_keys} >= {
        0,
        1,
        2,
        3,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        18,
        19,
        20,
        21,
        22,
        24,
        25,
        26,
        28,
    }


def test_cluster_describes_its_brokers(cluster: TieredCluster) -> None:
    body = answer(cluster, framed(60, 0, b"\0\0\0"))
    assert b"tiered-kafka" in body
    assert b"127.0.0.1" in body


def test_client_waits_until_it_can_be_accepted(
    cluster: TieredCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0)
    accept, errors = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files"), BlockingIOError()]

    def accepted(listener: socket.socket) -> tuple[socket.socket, object]:
        if errors:
            raise errors.pop()
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", accepted)
    assert answer(cluster, framed(18, 0))
    assert not errors
    assert caplog.messages == ["accepting connections fails, next attempt in 0 s: Too many open files"]


@pytest.mark.parametrize("turns", range(8))
def test_client_that_connects_during_the_stop_is_disconnected(turns: int) -> None:
    """asyncio takes a few turns from a connection to the call of the function that serves it."""

    def run() -> None:
        server = Server({1: 0}, Mock())
        server.start()

        async def stopped_meanwhile() -> socket.socket:
            connected = socket.create_connection(server.addresses[1], timeout=20)
            for _ in range(turns):
                await asyncio.sleep(0)
            await server._end()
            return connected

        loop = server.call(asyncio.get_running_loop)
        with asyncio.run_coroutine_threadsafe(stopped_meanwhile(), loop).result() as client:
            server.stop()
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""

    assert left_open(run) == []


def test_client_that_reads_no_answer_does_not_outlive_the_stop() -> None:
    def run() -> None:
        with TieredCluster(partitions=1) as cluster, socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, _, port = cluster.bootstrap_servers.rpartition(":")
            client.connect((host, int(port)))
            client.setblocking(False)
            requests = framed(18, 0) * 1000
            while select.select([], [client], [], 0.5)[1]:  # until the broker reads no more, as its answers are not read
                client.send(requests)

    assert left_open(run) == []
