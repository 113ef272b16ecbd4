"""Four pages over HTTP, and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_remote_client.errors import ConfigurationError, MissingExtraError
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.management import Management
from kafka_remote_client.shim.server import Shim
from tests.shim.test_checks import versions
from tests.support.mock_cluster import mock_cluster
from tests.support.scripted_broker import ScriptedBroker

FOUND: dict[str, str | None] = {}


@pytest.fixture
def management() -> Iterator[Management]:
    FOUND.clear()
    made = Management("127.0.0.1", 0, {"/readyz": lambda: FOUND.get("readyz")}, lambda: b"numbers 1\n")
    made.start()
    yield made
    made.stop()


def ask(address: tuple[str, int], path: str, method: str = "GET") -> tuple[int, str]:
    connection = HTTPConnection(*address, timeout=60)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_page_says_what_is_wrong(management: Management) -> None:
    assert ask(management.address, "/readyz?verbose") == (200, "ok\n")
    FOUND["readyz"] = "no broker answers"
    assert ask(management.address, "/readyz") == (503, "no broker answers\n")
    assert ask(management.address, "/readyz", "HEAD") == (503, "")


def test_metrics_are_a_page(management: Management) -> None:
    assert ask(management.address, "/metrics") == (200, "numbers 1\n")


@pytest.mark.parametrize(
    ("request_line", "fields"),
    [
        (b"GET /metrics HTTP/1.1\r\nConnection: close", b"Content-Type: text/plain; version=0.0.4; charset=utf-8"),
        (b"GET /readyz HTTP/1.0", b"Content-Type: text/plain; charset=utf-8"),
        (b"no request", b"Content-Type: text/plain; charset=utf-8"),
    ],
)
def test_answer_has_its_type_and_ends_if_requested(management: Management, request_line: bytes, fields: bytes) -> None:
    with socket.create_connection(management.address, timeout=60) as client, client.makefile("rb") as answer:
        client.sendall(request_line + b"\r\n\r\n")
        head = answer.read().partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert fields in head
    assert b"Connection: close" in head


def test_few_silent_peers_are_kept_for_half_a_minute(management: Management) -> None:
    """The pages have no credentials: peers that send nothing must not use up the shim's threads."""
    listener = management._listener
    assert (listener._max_connections, listener._idle_timeout) == (32, 30)


def test_other_pages_and_methods_are_refused(management: Management) -> None:
    assert ask(management.address, "/")[0] == 404
    assert ask(management.address, "/readyz", "DELETE")[0] == 405
    with socket.create_connection(management.address, timeout=60) as client:
        client.sendall(b"\x16\x03\x01\r\n\r\n")
        assert client.makefile("rb").readline() == b"HTTP/1.1 400 Bad Request\r\n"


def test_one_connection_serves_several_probes(management: Management) -> None:
    connection = HTTPConnection(*management.address, timeout=60)
    for headers in ({}, {"Connection": "close"}):
        connection.request("GET", "/readyz", headers=headers)
        assert connection.getresponse().read() == b"ok\n"
    connection.close()


def test_metrics_without_their_extra_say_so() -> None:
    def missing() -> bytes:
        raise MissingExtraError("install the extra")

    made = Management("127.0.0.1", 0, {}, missing)
    made.start()
    assert ask(made.address, "/metrics") == (501, "install the extra\n")
    made.stop()


@pytest.mark.parametrize("error", [ValueError, OSError])
def test_metrics_that_cannot_be_written_are_an_error_500(error: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    wrong: list[Exception] = [error("https://store/key?signature=canary")]

    def metrics() -> bytes:
        for one in wrong:
            raise one
        return b"numbers 1\n"

    made = Management("127.0.0.1", 0, {"/readyz": lambda: None}, metrics)
    made.start()
    connection = HTTPConnection(*made.address, timeout=60)
    answers = []
    for page in ("/metrics", "/metrics", "/readyz"):
        connection.request("GET", page)
        answer = connection.getresponse()
        answers.append((answer.status, answer.read().decode()))
    wrong.clear()
    assert ask(made.address, "/metrics") == (200, "numbers 1\n")
    wrong.append(error())
    assert ask(made.address, "/metrics")[0] == 500
    connection.close()
    made.stop()
    failed = f"metrics cannot be written: unexpected {error.__name__} in test_management.py, line "
    assert [status for status, _ in answers] == [500, 500, 200]
    assert answers[0][1].startswith(failed)
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]  # once in a row
    assert all(message.startswith(failed) for message in caplog.messages)
    assert "canary" not in answers[0][1] + caplog.text


def pages(shim: Shim) -> dict[str, int]:
    assert shim.management_url
    host, _, port = shim.management_url.removeprefix("http://").rpartition(":")
    return {page: ask((host, int(port)), page)[0] for page in ("/livez", "/readyz", "/tierz", "/metrics")}


def test_plain_proxy_is_ready_while_a_broker_answers() -> None:
    with ScriptedBroker(versions) as broker:
        config = ShimConfig(broker.address, management_listen="127.0.0.1:0", connect_timeout=0.5)
        with Shim(config) as shim:
            assert pages(shim) == {"/livez": 200, "/readyz": 200, "/tierz": 200, "/metrics": 200}
    with Shim(config) as shim:
        assert pages(shim) == {"/livez": 200, "/readyz": 503, "/tierz": 200, "/metrics": 200}
        assert shim._alive() is None
    assert shim._alive() == "the shim has stopped"
    assert shim._listening() == "the shim is stopping"


def test_without_a_setting_there_is_no_listener() -> None:
    with Shim(ShimConfig("127.0.0.1:1")) as shim:
        assert shim.management_url is None


def test_taken_address_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationError, match=f"cannot listen on {address}"):
            Shim(ShimConfig("127.0.0.1:1", management_listen=address)).start()


@pytest.mark.embedded
def test_fault_of_the_tier_never_makes_the_shim_unready(tmp_path: Path) -> None:
    with mock_cluster("metadata", [b"no event of a segment"]) as (host, port):
        config = ShimConfig(
            f"{host}:{port}", store=tmp_path.as_uri(), metadata_topic="metadata", management_listen="127.0.0.1:0"
        )
        with Shim(config) as shim:
            assert shim.wait_ready(60)
            assert pages(shim) == {"/livez": 200, "/readyz": 200, "/tierz": 503, "/metrics": 200}
            producer = Producer({"bootstrap.servers": shim.bootstrap_servers, "log_level": 0})
            producer.produce("orders", b"still served")
            assert producer.flush(60) == 0
            assert pages(shim)["/readyz"] == 200
