"""The witness distinguishes a server that answers, one that is gone, and one that only accepts connections."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from kafka_remote_client.shim.http_server import ConnectionListener
from tests.faults.peers import Look, look_at
from tests.support.embedded_topics import small_cluster
from tests.support.ports import HOST


@pytest.mark.embedded
def test_a_server_that_answers_is_recognised(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        for address in (cluster.bootstrap_servers, cluster.broker_bootstrap_servers):
            assert look_at(address, seconds=60.0) is Look.ANSWERED


def test_a_port_without_a_listener_refuses() -> None:
    with closing(socket.socket()) as keeper:
        keeper.bind((HOST, 0))
        assert look_at(f"{HOST}:{keeper.getsockname()[1]}") is Look.REFUSED


def test_a_server_that_hangs_up_refuses() -> None:
    listener = ConnectionListener(lambda connection: None, name="hangs-up")
    listener.start()
    try:
        assert look_at(f"{HOST}:{listener.address[1]}", seconds=60.0) is Look.REFUSED
    finally:
        listener.stop()


def test_a_server_that_only_accepts_connections_is_silent() -> None:
    with closing(socket.create_server((HOST, 0))) as listener:
        assert look_at(f"{HOST}:{listener.getsockname()[1]}", seconds=0.1) is Look.SILENT
