"""F17-F29: the connection to the store is faulty."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any, Protocol

from kafka_remote_client.testing import Answer, Direction, Ending, Pace, Passage, error
from tests.faults.bench import Rig
from tests.faults.observed import Observation
from tests.faults.scenario import Table, answered
from tests.support.store_client import CERTIFICATES

__all__ = ["STORE_CONNECTIONS"]

_table = Table()
STORE_CONNECTIONS = _table.scenarios

_HOST = "store.example"
_SHORT = 300
_CONNECT: dict[str, Any] = {"settings": {"fetch.remote.connect.timeout.ms": _SHORT}}
_READ: dict[str, Any] = {"settings": {"fetch.remote.read.timeout.ms": _SHORT}}
_CURED: dict[str, Any] = {"heals": True, "settings": {"fetch.remote.read.timeout.ms": 10 * _SHORT}}
"""A true answer is in time on a busy machine, and a hedge begins after half a second."""
_TIMEOUT = "timeout"


class _Listener(Protocol):
    """Counts connections."""

    @property
    def connections(self) -> int: ...


# -- no connection ----------------------------------------------------------------------------------------------------------


def _refused(rig: Rig) -> None:
    rig.reach(f"http://127.0.0.1:{rig.refused_port()}")


def _refused_later(rig: Rig) -> None:
    proxy = rig.proxied()

    def vanish() -> None:
        proxy.refuse()
        threading.Thread(target=proxy.cut_connections).start()

    rig.at_request(5, vanish)
    rig.proofs.append(lambda: [one for one in rig.observed.changes() if one.given == "ConnectionRefusedError"])
    rig.proofs.append(lambda: proxy.count(Passage.CUT))


def _dropped(rig: Rig) -> None:
    rig.reach(f"http://127.0.0.1:{rig.full_port()}")


def _resolves_to(answer: Callable[[], list[Any]]) -> Callable[[Rig], None]:
    def inject(rig: Rig) -> None:
        rig.reach(f"http://{_HOST}:{rig.origin.port}")
        rig.names(_HOST, answer)

    return inject


def _unknown() -> list[Any]:
    raise socket.gaierror(socket.EAI_NONAME, "scripted")


def _failing() -> list[Any]:
    raise socket.gaierror(socket.EAI_AGAIN, "scripted")


def _slow_name(rig: Rig) -> None:
    answered_at_last = threading.Event()
    rig.on_close.append(answered_at_last.set)  # a call of getaddrinfo cannot be cancelled: its thread ends with it
    rig.stack.callback(answered_at_last.set)
    _resolves_to(lambda: answered_at_last.wait() and [])(rig)


_table.add("refused", "F17", _refused, "unavailable")
_table.add("refused-later", "F17", _refused_later, "unavailable")
_table.add("syn-dropped", "F18", _dropped, _TIMEOUT, **_CONNECT)
_table.add("name-unknown", "F19", _resolves_to(_unknown), "unavailable")
_table.add("name-fails", "F19", _resolves_to(_failing), "unavailable")
_table.add("name-empty", "F19", _resolves_to(list), "unavailable")
_table.add("name-slow", "F19", _slow_name, _TIMEOUT, **_CONNECT)


# -- TLS --------------------------------------------------------------------------------------------------------------------


def _certificate(name: str) -> Callable[[Rig], None]:
    def inject(rig: Rig) -> None:
        origin = rig.bench.tls_origin(name)
        rig.reach(origin.url)
        good, shown = ((CERTIFICATES / f"{one}.pem").read_bytes() for one in ("good", name))
        _shown(rig, origin, good, shown)
        rig.proofs.append(lambda: not origin.exchanges)

    return inject


def _shown(rig: Rig, listener: _Listener, true: object, given: object) -> None:
    """New connections get one result where another was expected."""
    before = listener.connections
    rig.observed.add(lambda: Observation("handshake", "", true, given) if listener.connections > before else None)


def _good_certificate(rig: Rig) -> None:
    origin = rig.bench.tls_origin("good")
    rig.watch(origin)
    rig.reach(origin.url)
    rig.proofs.append(lambda: origin.exchanges)


def _silent_handshake(rig: Rig) -> None:
    listener = rig.silent_listener()
    rig.reach(f"https://127.0.0.1:{listener.address[1]}")
    _shown(rig, listener, "a handshake", "nothing")


def _plaintext(rig: Rig) -> None:
    rig.reach(rig.origin.url.replace("http:", "https:"))
    _shown(rig, rig.origin, "a handshake", "the end of the connection")
    rig.proofs.append(lambda: not rig.origin.exchanges)


_table.add("certificate-good", "", _good_certificate, heals=True)
for name in (
    *("expired", "not-yet-valid", "wrong-name", "wrong-address", "name-only-in-subject", "for-clients-only"),
    *("unknown-authority", "self-signed"),
):
    _table.add(f"certificate-{name}", "F20", _certificate(name), "storage-error")
_table.add("handshake-stalls", "F21", _silent_handshake, _TIMEOUT, **_CONNECT)
_table.add("plaintext-on-tls", "F22", _plaintext, "storage-error unavailable invalid-response")


# -- stalls -----------------------------------------------------------------------------------------------------------------

_NO_HEDGE: dict[str, Any] = {"settings": {**_READ["settings"], "fetch.remote.hedge.max.percent": 0}}
_HEDGES = {
    "of-another-version": error(412, "PreconditionFailed"),
    "with-fewer-bytes": Answer(ending=Ending.CUT, at=300),
    "of-another-range": Answer(headers={"Content-Range": "bytes 7-9/100"}),
    "refused": error(500, "InternalError"),
}


def _lost_then(hedge: Answer, after: int) -> Callable[[Rig], None]:
    """A request gets no answer, and its hedge gets this answer."""

    def inject(rig: Rig) -> None:
        rig.answers(hedge, times=1, to=rig.requested_again(Answer(silent=True), after))

    return inject


for name, after in (("", 0), ("-later", 5)):
    _table.add(f"silent{name}", "F23", answered(Answer(silent=True), after=after), _TIMEOUT, **_READ)
    _table.add(f"late-head{name}", "F23", answered(Answer(delay=30.0), after=after), _TIMEOUT, **_READ)
    _table.add(f"head-only{name}", "F23", answered(Answer(ending=Ending.STALL, at=0), after=after), _TIMEOUT, **_READ)
    _table.add(f"trickle{name}", "F24", answered(Answer(pace=Pace(1, 0.09)), after=after), _TIMEOUT, **_READ)
    _table.add(
        f"trickle-chunked{name}", "F24", answered(Answer(pace=Pace(1, 0.09), chunked=True), after=after), _TIMEOUT, **_READ
    )
    _table.add(f"stalls-in-batch{name}", "F25", answered(Answer(ending=Ending.STALL, at=400), after=after), _TIMEOUT, **_READ)
    _table.add(f"stalls-at-last{name}", "F25", answered(Answer(ending=Ending.STALL, at=700), after=after), _TIMEOUT, **_READ)
    # It stalls once, and its hedge brings the range. Without hedges KIP-1254 requires an immediate fallback for a time-out.
    once = answered(Answer(ending=Ending.STALL, at=400), times=1, after=after)
    _table.add(f"stalls-once{name}", "F25 F76", once, **_CURED)
    _table.add(f"stalls-once-no-hedge{name}", "F25", once, _TIMEOUT, **_NO_HEDGE)
    _table.add(f"lost-once{name}", "F76", answered(Answer(silent=True), times=1, after=after), **_CURED)
    for kind, hedge in _HEDGES.items():
        _table.add(f"hedge-{kind}{name}", "F77", _lost_then(hedge, after), **_CURED)


def _black_hole(direction: Direction) -> Callable[[Rig], None]:
    """The path of a used connection stops working, and later recovers."""

    def inject(rig: Rig) -> None:
        proxy = rig.proxied()
        rig.at_request(5, lambda: proxy.black_hole(direction))

    return inject


def _pool_dies(rig: Rig) -> None:
    """Every idle connection ends between two requests. A new one replaces it without a visible effect."""
    rig.at_request(5, lambda: threading.Thread(target=rig.origin.cut_connections).start())


def _slow_line(rig: Rig) -> None:
    proxy = rig.proxied()
    rig.at_request(3, lambda: proxy.trickle(20, 0.05, Direction.DOWN))


_table.add("black-hole-both", "F25", _black_hole(Direction.BOTH), _TIMEOUT, **_READ)
_table.add("black-hole-down", "F25", _black_hole(Direction.DOWN), _TIMEOUT, **_READ)
_table.add("black-hole-up", "F25", _black_hole(Direction.UP), _TIMEOUT, **_READ)
_table.add("slow-line", "F24", _slow_line, _TIMEOUT, **_READ)
_table.add("pool-dies", "", _pool_dies, about="F25", heals=True)
# The store closes a connection at the moment of its next use.
_table.add("closed-when-used-again", "F25", answered(Answer(raw=b""), times=1, after=4), heals=True)

# -- ends -------------------------------------------------------------------------------------------------------------------

_CUT = "unavailable"
for at in (0, 1, 60, 61, 500, 700):
    _table.add(f"reset-at-{at}-once", "F26", answered(Answer(ending=Ending.RESET, at=at), times=1, after=2), heals=True)
    _table.add(f"cut-at-{at}-once", "F27 F28", answered(Answer(ending=Ending.CUT, at=at), times=1, after=2), heals=True)
for at in (0, 400):
    _table.add(f"reset-at-{at}-always", "F26", answered(Answer(ending=Ending.RESET, at=at)), _CUT)
    _table.add(f"cut-at-{at}-always", "F27", answered(Answer(ending=Ending.CUT, at=at)), _CUT)
_table.answers("chunked-without-end", "F27", Answer(ending=Ending.CUT, at=400, chunked=True), _CUT)
_table.add("chunked-whole-without-last-chunk", "F27", answered(Answer(ending=Ending.CUT, chunked=True)), heals=True)


def _proxy_cuts(count: int, *, reset: bool) -> Callable[[Rig], None]:
    def inject(rig: Rig) -> None:
        proxy = rig.proxied()
        proxy.cut_after(count, reset=reset)

    return inject


for count in (100, 2_000, 5_000):
    for reset in (False, True):
        name = f"line-{'reset' if reset else 'cut'}-after-{count}"
        # If the cut is in a head, the head looks complete without its Content-Range.
        _table.add(name, "F26" if reset else "F27", _proxy_cuts(count, reset=reset), f"{_CUT} invalid-response", may=True)
_ONE_AT_A_TIME = {"settings": {"fetch.remote.max.in.flight": 1, "fetch.remote.slow.bytes.per.second": 1 << 20}}
_table.add("slower-than-the-broker", "F29", answered(Answer(delay=0.6)), "slower-than-broker", **_ONE_AT_A_TIME)
