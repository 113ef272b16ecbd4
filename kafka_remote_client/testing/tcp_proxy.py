"""A proxy that does to TCP connections what networks do: refuse, swallow, trickle, cut. For those to brokers, shims and stores.

::

    with TcpFaultProxy(("127.0.0.1", 9092)) as proxy:
        client = Consumer({"bootstrap.servers": proxy.authority, ...})
        proxy.black_hole()              # no byte passes, on existing and new connections; none is closed
        assert proxy.wait_for(Passage.HELD)
        proxy.heal()                    # held bytes are forwarded, in order

A fault holds for connections that exist and for those to come, until :meth:`TcpFaultProxy.heal` or until another takes its
place. Bytes are never reordered, changed or lost while their connection lives. ``records`` tells what the proxy did, so that a
test can prove that its fault fired.

``direction``: UP is from the client to the server, DOWN the way back.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from enum import Enum, Flag, auto
from functools import partial
from typing import Self

import attrs

from kafka_remote_client import arguments

__all__ = ["Direction", "Passage", "PassageRecord", "TcpFaultProxy"]

_PIECE = 64 * 1024
_CONNECT_SECONDS = 10.0
_JOIN_SECONDS = 10.0
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time to linger: close sends RST


class Direction(Flag):
    """The direction of bytes."""

    UP = auto()
    DOWN = auto()
    BOTH = UP | DOWN


class Passage(Enum):
    """Events that the proxy records."""

    ACCEPTED = "accepted"
    """A connection was accepted and forwarded to the target."""
    REFUSED = "refused"
    """The port stopped listening: the kernel refuses connections."""
    HELD = "held"
    """Bytes of a direction with a black hole were held."""
    TRICKLED = "trickled"
    """A piece was forwarded at the slow pace."""
    CUT = "cut"
    """A connection was ended by the proxy."""


@attrs.frozen
class PassageRecord:
    """One event: the connection (from 1; 0 = the port), the direction, and the bytes of that direction so far."""

    passage: Passage
    connection: int = 0
    direction: Direction = Direction.BOTH
    at: int = 0


@attrs.frozen
class _Fault:
    direction: Direction = Direction.BOTH
    holds: bool = False
    pace: tuple[int, float] | None = None
    cut_at: int | None = None
    reset: bool = False

    def __attrs_post_init__(self) -> None:
        arguments.member(Direction, self.direction, "direction")


class TcpFaultProxy:
    """Listens on a free port of ``host`` that stays its own, also while it refuses. Starts with :meth:`start` or ``with``."""

    def __init__(self, target: tuple[str, int], *, host: str = "127.0.0.1") -> None:
        self.target = target
        self.records: list[PassageRecord] = []
        self._changed = threading.Condition()
        self._fault: _Fault | None = None
        self._stopping = threading.Event()
        self._pairs: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._threads: list[threading.Thread] = []
        self._connections = 0
        # A socket that is bound and never listens keeps the port while nothing listens on it.
        self._keeper = _bound(host, 0)
        self._listener: socket.socket | None = None
        self.address: tuple[str, int] = (host, self._keeper.getsockname()[1])

    @property
    def authority(self) -> str:
        """``host:port``."""
        return f"{self.address[0]}:{self.address[1]}"

    # -- faults ------------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Ends the fault. Held bytes are forwarded first."""
        self._set(None)
        self._listen()

    def refuse(self) -> None:
        """Refuses new connections; existing ones continue."""
        self._unlisten()
        self._record(Passage.REFUSED)

    def black_hole(self, direction: Direction = Direction.BOTH) -> None:
        """Holds all bytes of one or both directions. Connections are still accepted, and none is closed."""
        self._set(_Fault(direction, holds=True))

    def trickle(self, size: int, seconds: float, direction: Direction = Direction.BOTH) -> None:
        """Forwards ``size`` bytes every ``seconds``."""
        arguments.whole(size, "size", 1)
        arguments.duration(seconds, "seconds")
        self._set(_Fault(direction, pace=(size, seconds)))

    def cut_after(self, count: int, direction: Direction = Direction.DOWN, *, reset: bool = False) -> None:
        """Ends each connection after that many bytes of a direction, counted from its beginning."""
        arguments.whole(count, "count", 0)
        self._set(_Fault(direction, cut_at=count, reset=reset))

    def cut_connections(self, *, reset: bool = False) -> None:
        """Ends all current connections; new ones are forwarded."""
        with self._changed:
            numbers = list(self._pairs)
        for number in numbers:
            self._cut(number, Direction.BOTH, 0, reset=reset)

    # -- what it did -------------------------------------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """The number of accepted connections."""
        with self._changed:
            return self._connections

    def count(self, passage: Passage) -> int:
        """The number of events of this kind."""
        arguments.member(Passage, passage, "passage")
        with self._changed:
            return sum(record.passage is passage for record in self.records)

    def wait_for(self, passage: Passage, count: int = 1, *, timeout: float = 60.0) -> bool:
        """Waits until there are that many events of this kind. Returns False on a time-out."""
        arguments.member(Passage, passage, "passage")
        arguments.whole(count, "count", 0)
        arguments.duration(timeout, "timeout")

        def enough() -> bool:
            return sum(record.passage is passage for record in self.records) >= count

        with self._changed:
            return self._changed.wait_for(enough, timeout)

    # -- life --------------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listens."""
        self._listen()
        return self

    def stop(self) -> None:
        """Ends all connections and releases the port. It can be called repeatedly."""
        self._stopping.set()
        self._unlisten()
        self._set(None)
        self.cut_connections()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
        self._keeper.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _set(self, fault: _Fault | None) -> None:
        with self._changed:
            self._fault = fault
            self._changed.notify_all()

    def _record(self, passage: Passage, connection: int = 0, direction: Direction = Direction.BOTH, at: int = 0) -> None:
        with self._changed:
            self.records.append(PassageRecord(passage, connection, direction, at))
            self._changed.notify_all()

    def _listen(self) -> None:
        with self._changed:
            if self._listener is not None or self._stopping.is_set():
                return
            self._listener = listener = _bound(*self.address)
            listener.listen(128)
        self._thread(lambda: self._accept(listener))

    def _unlisten(self) -> None:
        with self._changed:
            listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
            listener.close()

    def _thread(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name="tcp-fault-proxy", daemon=True)
        with self._changed:
            self._threads = [one for one in self._threads if one.is_alive()]
            self._threads.append(thread)
            thread.start()  # under the lock: stop() joins no thread that was not started

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with self._changed:
                self._connections += 1
                number = self._connections
            self._thread(partial(self._lead_on, client, number))

    def _lead_on(self, client: socket.socket, number: int) -> None:
        try:
            server = socket.create_connection(self.target, _CONNECT_SECONDS)
        except OSError:
            self._record(Passage.CUT, number)
            client.close()
            return
        for end in (client, server):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._changed:
            self._pairs[number] = client, server
        self._record(Passage.ACCEPTED, number)
        if self._stopping.is_set():
            self._cut(number, Direction.BOTH, 0)
            return
        self._thread(lambda: self._pump(client, server, number, Direction.UP))
        self._pump(server, client, number, Direction.DOWN)

    # -- bytes -------------------------------------------------------------------------------------------------------------

    def _pump(self, source: socket.socket, sink: socket.socket, number: int, direction: Direction) -> None:
        passed = 0
        try:
            while data := source.recv(_PIECE):
                rest = memoryview(data)
                while rest:
                    fault = self._passes(number, direction, passed)
                    size = _allowed(fault, passed, len(rest))
                    sink.sendall(rest[:size])
                    passed += size
                    rest = rest[size:]
                    if fault is not None and fault.cut_at is not None and passed >= fault.cut_at:
                        self._cut(number, direction, passed, reset=fault.reset)
                        return
                    if fault is not None and fault.pace is not None and size:
                        self._record(Passage.TRICKLED, number, direction, passed)
                        self._rest(fault)
            self._passes(number, direction, passed)  # an end is swallowed as bytes are
        except OSError:
            pass  # cut under our hands, by a peer or by a fault
        self._close(number)

    def _passes(self, number: int, direction: Direction, passed: int) -> _Fault | None:
        """Waits while the direction has a black hole. Returns the fault that applies to later bytes."""
        told = False
        with self._changed:
            while (fault := self._applying(direction)) is not None and fault.holds and number in self._pairs:
                if not told:
                    self.records.append(PassageRecord(Passage.HELD, number, direction, passed))
                    self._changed.notify_all()
                    told = True
                self._changed.wait()
            return fault

    def _applying(self, direction: Direction) -> _Fault | None:
        return self._fault if self._fault is not None and direction in self._fault.direction else None

    def _rest(self, fault: _Fault) -> None:
        """Waits for one interval of the pace, or until the fault ends."""
        assert fault.pace is not None
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not fault, fault.pace[1])

    def _cut(self, number: int, direction: Direction, at: int, *, reset: bool = False) -> None:
        if self._close(number, reset=reset):
            self._record(Passage.CUT, number, direction, at)

    def _close(self, number: int, *, reset: bool = False) -> bool:
        """Ends both halves of a connection. Returns False if it had ended before."""
        with self._changed:
            pair = self._pairs.pop(number, None)
            self._changed.notify_all()
        if pair is None:
            return False
        for end in pair:
            with contextlib.suppress(OSError):
                if reset:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                else:
                    end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads it
        for end in pair:
            with contextlib.suppress(OSError):
                if reset:
                    end.shutdown(socket.SHUT_RD)
            end.close()
        return True


def _allowed(fault: _Fault | None, passed: int, wanted: int) -> int:
    """How many of ``wanted`` bytes may pass now, after ``passed`` bytes."""
    if fault is None:
        return wanted
    if fault.cut_at is not None:
        return max(0, min(wanted, fault.cut_at - passed))
    return min(wanted, fault.pace[0]) if fault.pace is not None else wanted


def _bound(host: str, port: int) -> socket.socket:
    """A socket on an address that other sockets of this process can share."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
