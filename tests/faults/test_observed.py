"""The witnesses of faults: an answer counts as changed if its bytes or status differ, or if it is late."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka_remote_fetchers.local import LocalFetcher

from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.testing import Answer, Direction, Ending, Pace, Passage, error, read_all, segment_metadata
from tests.faults.observed import Observation, Observed, WatchedOrigin, WatchedProxy
from tests.support.reading import PATIENCE_SECONDS
from tests.support.waiting import wait_until

DATA = bytes(range(256)) * 8
LAST = 1999


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
def origin(observed: Observed) -> Iterator[WatchedOrigin]:
    with WatchedOrigin({"a.log": DATA}) as made:
        made.observed, made.truth = observed, {"a.log": DATA}
        yield made


def get(port: int, last: int = LAST, *, seconds: float = PATIENCE_SECONDS) -> bytes:
    """Requests the range up to ``last``. Returns the received part of its body, if any. Waits for bytes for ``seconds``."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)) as connection:
        try:
            connection.request("GET", "/a.log", headers={"Range": f"bytes=0-{last}"})
            return connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return b""


def settled(observed: Observed) -> list[Observation]:
    """Returns all observations of the one answer, after its end."""
    wait_until(observed.all, "the answer to be noted")
    return observed.all()


def test_a_true_answer_is_not_changed(observed: Observed, origin: WatchedOrigin) -> None:
    assert get(origin.port) == DATA[: LAST + 1]
    (one,) = settled(observed)
    assert not one.changed


SPOILT = {
    "error": error(503, "SlowDown"),
    "status": Answer(status=200),
    "header-gone": Answer(headers={"Content-Range": None}),
    "header-twice": Answer(headers={"Content-Range": f"bytes 0-{LAST}/2048\r\nContent-Range: bytes 1-2/3"}),
    "byte": Answer(transform=lambda data: data[:-1] + b"x"),
    "cut": Answer(ending=Ending.CUT, at=10),
    "stall": Answer(ending=Ending.STALL, at=10),
    "chunked": Answer(chunked=True),
    "silent": Answer(silent=True),
    "closed": Answer(raw=b""),
    "late": Answer(delay=0.01),
    "too-late": Answer(delay=30.0),
    "slow": Answer(pace=Pace(1000, 0.01)),
}
ENDLESS = frozenset({"stall", "silent", "too-late"})
"""Faults that the client ends, by disconnecting."""
HARMLESS = {
    "status": Answer(status=206),
    "bytes": Answer(transform=bytes),
    "closed-at-its-end": Answer(ending=Ending.CUT),
    "reset-at-its-end": Answer(ending=Ending.RESET, at=LAST + 1),
    "stalls-behind-its-end": Answer(ending=Ending.STALL, at=5000),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_scripted_fault_counts_as_a_change_by_its_script(observed: Observed, origin: WatchedOrigin, name: str) -> None:
    origin.script(SPOILT[name])
    get(origin.port, seconds=0.5 if name in ENDLESS else PATIENCE_SECONDS)
    wait_until(observed.changes, "a change")
    (one,) = observed.changes()
    assert one.by is SPOILT[name]


@pytest.mark.parametrize("name", HARMLESS)
def test_a_script_that_changes_nothing_is_not_a_fault(observed: Observed, origin: WatchedOrigin, name: str) -> None:
    origin.script(HARMLESS[name])
    get(origin.port)
    assert len(settled(observed)) == 1
    assert not observed.changes()


def test_another_object_under_the_key_is_a_change(observed: Observed, origin: WatchedOrigin) -> None:
    origin.objects["a.log"] = DATA[:1000]
    get(origin.port, 500)
    assert wait_until(observed.changes, "a change"), "the size in Content-Range is another one"


def test_a_client_that_disconnects_early_is_not_a_fault(observed: Observed, origin: WatchedOrigin) -> None:
    with socket.create_connection(("127.0.0.1", origin.port)) as connection:
        connection.sendall(b"GET /a.log HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1999\r\n\r\n")
    settled(observed)
    assert not observed.changes()


@pytest.mark.parametrize("direction", list(Direction))
def test_bytes_that_a_proxy_holds_are_a_change(observed: Observed, origin: WatchedOrigin, direction: Direction) -> None:
    with WatchedProxy(("127.0.0.1", origin.port), observed) as proxy:
        assert get(proxy.address[1]) == DATA[: LAST + 1]
        assert not observed.changes()
        proxy.black_hole(direction)
        get(proxy.address[1], seconds=0.5)
        assert proxy.wait_for(Passage.HELD)
        wait_until(observed.changes, "a change")
        assert {one.place for one in observed.changes()} == {"line"}


def test_bytes_that_a_proxy_cuts_off_are_a_change(observed: Observed, origin: WatchedOrigin) -> None:
    with WatchedProxy(("127.0.0.1", origin.port), observed) as proxy:
        proxy.cut_after(300)
        get(proxy.address[1])
        wait_until(observed.changes, "a change")


def test_a_refused_connection_is_a_change_and_an_accepted_one_is_not(observed: Observed, origin: WatchedOrigin) -> None:
    with socket.socket() as keeper:
        keeper.bind(("127.0.0.1", 0))
        for port in (origin.port, keeper.getsockname()[1]):
            with observed.connects(port):
                get(port)
    assert [one.given for one in observed.all() if one.place == "connection"] == ["connected", "ConnectionRefusedError"]
    assert [one.given for one in observed.changes()] == ["ConnectionRefusedError"]


@pytest.mark.parametrize(
    ("content", "changed"),
    [(DATA, 0), (DATA[:50], 1), (b"x" * len(DATA), 1), (None, 1)],
    ids=["true", "short", "other", "gone"],
)
def test_another_file_under_the_path_is_a_change(
    tmp_path: Path, observed: Observed, content: bytes | None, changed: int
) -> None:
    if content is not None:
        (tmp_path / "a.log").write_bytes(content)
    fetcher = LocalFetcher()
    fetcher.configure({"remote.storage.fetcher.local.root": str(tmp_path)})
    metadata = segment_metadata(LocationMetadata(object_key="a.log").encode(), len(DATA))
    with observed.files({"a.log": DATA}):
        try:
            read_all(fetcher.fetch_log_segment(metadata, 0, 100), 30)
        except Exception:
            assert changed
    assert len(observed.changes()) == changed
