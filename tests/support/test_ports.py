"""A client of a stopped server reaches no listener whose port the system chooses."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ports
from tests.support.ports import HOST, free_ports

CHOSEN_BY_LINUX = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.skipif(not CHOSEN_BY_LINUX.is_file(), reason="this system is not Linux")
def test_servers_of_tests_listen_below_the_ports_that_linux_chooses() -> None:
    first = int(CHOSEN_BY_LINUX.read_text().split()[0])
    with socket.create_server((HOST, 0)) as one, socket.create_server((HOST, 0)) as other:
        ports_of_both = {one.getsockname()[1], other.getsockname()[1]}
    assert len(ports_of_both) == 2
    assert max(ports_of_both) < first


def test_server_that_names_its_port_gets_it() -> None:
    (port,) = free_ports(1)
    with socket.create_server((HOST, port)) as server:
        assert server.getsockname() == (HOST, port)
        with pytest.raises(OSError, match="in use"):
            socket.create_server((HOST, port))


def test_port_that_another_process_took_is_not_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = free_ports(2)
    offered = [free, taken]
    monkeypatch.setattr(ports, "free_ports", lambda _: [offered.pop()])
    with socket.create_server((HOST, taken)), socket.create_server((HOST, 0)) as server:
        assert server.getsockname() == (HOST, free)


def test_address_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(OSError, match="assign"):
        socket.create_server(("192.0.2.1", 0))


def test_copy_of_a_checkout_gets_ports_of_its_own(tmp_path: Path) -> None:
    """The copy has the cache of the first one."""
    first, copy = tmp_path / "first", tmp_path / "copy"
    shutil.copytree(Path(ports.__file__).parent, first / "tests" / "support", ignore=lambda *_: {"__pycache__"})
    got = [*_free_ports_in(first)]
    shutil.copytree(first, copy)
    got += [*_free_ports_in(first), *_free_ports_in(copy)]
    assert len({*got}) == 6


def test_empty_counter_is_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it writes leaves one."""
    counter = tmp_path / "next-port"
    counter.touch()
    monkeypatch.setattr(ports, "_COUNTER", counter)
    (first,), (second,) = free_ports(1), free_ports(1)
    assert first != second


def _free_ports_in(checkout: Path) -> list[str]:
    command = [sys.executable, "-c", "from tests.support.ports import free_ports; print(*free_ports(2))"]
    result = subprocess.run(command, cwd=checkout, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return result.stdout.split()
