"""Enums, offsets and durations as arguments: the accepted values, and that the whole API refuses others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_remote_client import IsolationLevel, arguments, open_reader
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.embedded.cluster import Faults
from kafka_remote_client.errors import ConfigurationError, DirectFetchError
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import ByteRange
from kafka_remote_client.records import CompletedFetch, read_batches
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.signing import UrlSigner
from kafka_remote_client.testing import (
    Answer,
    FailingFetcher,
    Failure,
    Pace,
    ScriptedOrigin,
    SlowFetcher,
    TcpFaultProxy,
    segment_metadata,
)
from kafka_remote_client.verify.verifier import VerifyRequest

NAN, INFINITY = float("nan"), float("inf")
NO_LEVELS = [7, 0, 1, None, True, "committed", "READ COMMITTED", b"read_committed"]
NO_NUMBERS = [True, False, 1.0, NAN, "1", None]
NO_OFFSETS = [*NO_NUMBERS, -1, 2**63]
NO_DURATIONS = [True, NAN, INFINITY, -INFINITY, -1, -0.001, "1", 1e10]


@pytest.mark.parametrize(
    ("given", "level"),
    [
        (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_COMMITTED),
        (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_UNCOMMITTED),
        ("read_committed", IsolationLevel.READ_COMMITTED),
        ("Read_Uncommitted", IsolationLevel.READ_UNCOMMITTED),
        ("READ_COMMITTED", IsolationLevel.READ_COMMITTED),
    ],
)
def test_an_isolation_level_may_be_an_enum_or_a_name(given: Any, level: IsolationLevel) -> None:
    assert arguments.isolation_level(given) is level


@pytest.mark.parametrize("given", NO_LEVELS)
def test_refuses_any_other_isolation_level_and_shows_it(given: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        arguments.isolation_level(given, "isolation.level")
    assert str(caught.value).startswith("isolation.level must be")
    assert repr(given) in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DirectFetchError)


def test_whole_numbers_have_inclusive_bounds() -> None:
    class Five:
        def __index__(self) -> int:
            return 5

    assert arguments.whole(Five(), "n", 5, 5) == 5
    assert arguments.whole(10**30, "n", 0) == 10**30
    for given in (4, 6):
        with pytest.raises(ConfigurationError, match="n must be a whole number, at least 5 and at most 5, not"):
            arguments.whole(given, "n", 5, 5)
    with pytest.raises(ConfigurationError, match="n must be a whole number, at least 0, not -1"):
        arguments.whole(-1, "n", 0)


def test_bounds_are_in_order_and_may_be_equal() -> None:
    assert arguments.bounds(None, None) == (None, None)
    assert arguments.bounds(5, 5) == (5, 5)
    assert arguments.bounds(None, 5) == (None, 5)
    assert arguments.bounds(-2, 5, lowest=-2) == (-2, 5)
    with pytest.raises(ConfigurationError, match="end_offset 4 is below start_offset 5"):
        arguments.bounds(5, 4)


def test_durations_are_finite_and_not_negative() -> None:
    assert arguments.duration(0, "d") == 0
    assert arguments.duration(0.5, "d") == 0.5
    assert arguments.patience(None) is None
    assert arguments.patience(1.5) == 1.5
    for given in NO_DURATIONS:
        with pytest.raises(ConfigurationError, match="d must be a number between 0 and"):
            arguments.duration(given, "d")


def _fetch(**changed: Any) -> object:
    given: dict[str, Any] = {
        "fetch_offset": 0,
        "isolation_level": IsolationLevel.READ_UNCOMMITTED,
        "aborted_transactions": None,
    }
    return CompletedFetch(segment_metadata(None), **{**given, **changed})


def _read(**changed: Any) -> object:
    return read_batches(b"", **changed)


def _block(call: Callable[[Any], object]) -> object:
    return call(read_batches(b""))


def _shim(**changed: Any) -> object:
    return ShimConfig("localhost:9092", **changed)


def _ask(**changed: Any) -> object:
    return LocationQuestion(**{"topic": "t", "partition": 0, "offset": 0, "isolation_level": "read_committed", **changed})


def _open(**changed: Any) -> object:
    with open_reader({"bootstrap.servers": "localhost:1", **changed.pop("settings", {})}, "t", 0, **changed) as reader:
        return reader


_SIGNER = UrlSigner(b"s" * 16, "http://localhost", SystemClock())
_INNER: Any = FailingFetcher(None)  # type: ignore[arg-type] # nothing is fetched

REFUSED: list[tuple[str, Callable[[Any], object], list[Any]]] = [
    ("CompletedFetch level", lambda v: _fetch(isolation_level=v), NO_LEVELS),
    ("CompletedFetch fetch_offset", lambda v: _fetch(fetch_offset=v), NO_OFFSETS),
    ("CompletedFetch end_offset", lambda v: _fetch(end_offset=v), [v for v in NO_OFFSETS if v is not None]),
    ("CompletedFetch cap", lambda v: _fetch(max_decompressed_bytes=v), [*NO_NUMBERS, 0, -1, 2**31]),
    ("read_batches level", lambda v: _read(isolation_level=v), NO_LEVELS),
    ("read_batches fetch_offset", lambda v: _read(fetch_offset=v), NO_OFFSETS),
    ("read_batches cap", lambda v: _read(max_decompressed_bytes=v), [*NO_NUMBERS, 0, -1]),
    ("RecordBlock index", lambda v: _block(lambda block: block.offset(v)), NO_NUMBERS),
    ("RecordBlock start", lambda v: _block(lambda block: list(block.rows(v))), NO_NUMBERS),
    ("RecordBlock stop", lambda v: _block(lambda block: block.messages("t", 0, 0, v)), [True, 1.0, NAN, "1"]),
    ("open_reader level", lambda v: _open(settings={"isolation.level": v}), NO_LEVELS),
    ("open_reader start", lambda v: _open(start_offset=v), [True, 1.0, NAN, "1", None, -1, -3]),
    ("open_reader end", lambda v: _open(end_offset=v), [True, 1.0, NAN, "1", -1, -2]),
    ("open_reader reversed", lambda v: _open(start_offset=v[0], end_offset=v[1]), [(5, 4)]),
    ("LocationQuestion level", lambda v: _ask(isolation_level=v), NO_LEVELS),
    ("LocationQuestion offset", lambda v: _ask(offset=v), NO_OFFSETS),
    ("LocationQuestion bytes", lambda v: _ask(max_bytes=v), [*NO_NUMBERS, -1]),
    (
        "ListingLocationSource range_bytes",
        lambda v: ListingLocationSource(None, LocalTieredStorageLayout(), range_bytes=v),
        [*NO_NUMBERS, 0],
    ),
    (
        "BrokerLocationSource connect_timeout",
        lambda v: BrokerLocationSource("localhost:1", client_id="c", clock=SystemClock(), connect_timeout=v),
        NO_DURATIONS,
    ),
    ("RemoteFetchConfig read_timeout_ms", lambda v: RemoteFetchConfig(read_timeout_ms=v), [True, 1.0, NAN, "1", -1, 0]),
    ("RemoteFetchConfig retries", lambda v: RemoteFetchConfig(retries=v), [True, 1.0, NAN, "1", -1]),
    ("RemoteFetchConfig location_source", lambda v: RemoteFetchConfig(location_source=v), ["Broker", None, 1]),
    ("ShimConfig url_ttl", lambda v: _shim(url_ttl=v), [*NO_DURATIONS, 0, 901, None]),
    ("ShimConfig idle_timeout", lambda v: _shim(idle_timeout=v), [*NO_DURATIONS, 0]),
    ("ShimConfig range_bytes", lambda v: _shim(range_bytes=v), [*NO_NUMBERS, 0]),
    ("ShimConfig max_connections", lambda v: _shim(max_connections=v), [*NO_NUMBERS, 0]),
    ("ShimConfig node_ids", lambda v: _shim(node_ids=(v,)), [*NO_NUMBERS, -1]),
    ("Shim wait_ready", lambda v: Shim.wait_ready(object.__new__(Shim), v), NO_DURATIONS),
    ("UrlSigner ttl", lambda v: _SIGNER.sign("k", ByteRange(0, 1), v), NO_DURATIONS),
    ("VerifyRequest jobs", lambda v: VerifyRequest(jobs=v), [*NO_NUMBERS, 0]),
    ("VerifyRequest grace_ms", lambda v: VerifyRequest(grace_ms=v), [*NO_NUMBERS, -1]),
    ("Faults slow_store", lambda v: Faults(object.__new__(object)).slow_store(v), NO_DURATIONS),
    ("Answer ending", lambda v: Answer(ending=v), ["cut", None, 1]),
    ("Answer delay", lambda v: Answer(delay=v), NO_DURATIONS),
    ("Answer at", lambda v: Answer(at=v), [True, 1.0, NAN, "1", -1]),
    ("Pace size", lambda v: Pace(v, 1.0), [*NO_NUMBERS, 0, -1]),
    ("Pace seconds", lambda v: Pace(1, v), NO_DURATIONS),
    ("Failure after", lambda v: Failure(None, after=v), [True, 1.0, NAN, "1", -1]),
    ("SlowFetcher seconds", lambda v: SlowFetcher(_INNER, v), NO_DURATIONS),
    ("ScriptedOrigin rule", lambda v: ScriptedOrigin({}).rule(Answer(), times=v), [True, 1.0, NAN, "1", 0, -1]),
    ("ScriptedOrigin wait_for", lambda v: ScriptedOrigin({}).wait_for(0, timeout=v), NO_DURATIONS),
]


@pytest.mark.parametrize(
    ("call", "given"),
    [pytest.param(call, value, id=f"{name}={value!r}") for name, call, values in REFUSED for value in values],
)
def test_the_api_refuses_an_invalid_enum_number_or_duration(call: Callable[[Any], object], given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"must be|is below"):
        call(given)


def test_the_tcp_proxy_refuses_invalid_faults() -> None:
    proxy = TcpFaultProxy(("127.0.0.1", 9))
    try:
        calls: list[Callable[[], object]] = [
            lambda: proxy.black_hole("down"),
            lambda: proxy.trickle(0, 1.0),
            lambda: proxy.trickle(1, NAN),
            lambda: proxy.cut_after(-1),
            lambda: proxy.count("cut"),
            lambda: proxy.wait_for("cut"),
        ]
        for call in calls:
            with pytest.raises(ConfigurationError, match="must be"):
                call()
    finally:
        proxy.stop()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *[(True, True), ("TRUE", True), ("t", True), (1, True), ("1", True)],
        *[(False, False), ("False", False), ("F", False), (0, False), ("0", False)],
        *[("yes", None), ("on", None), ("", None), (None, None), (2, None), (" true", None)],
    ],
)
def test_booleans_are_those_of_librdkafka(value: object, expected: bool | None) -> None:
    assert arguments.boolean(value) is expected


@pytest.mark.parametrize(
    ("name", "ratio", "meant"),
    [("bytse", 0.6, "bytes"), ("bytse", 0.9, None), ("nothing", 0.6, None), ("bytes.", 0.6, "bytes")],
)
def test_closest_known_name_is_found_or_none(name: str, ratio: float, meant: str | None) -> None:
    assert arguments.closest(name, {"size", "bytes"}, ratio) == meant


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), (" TRUE ", True), ("False", False), ("1", None), ("t", None), ("0", None), ("", None), ("yes", None)],
)
def test_java_has_two_names_for_booleans(text: str, value: bool | None) -> None:
    assert arguments.java_boolean(text) is value


def test_a_boolean_by_either_rule_or_an_error_without_the_value() -> None:
    assert arguments.true_or_false("T", "s") is True
    assert arguments.true_or_false("false ", "s", arguments.java_boolean) is False
    for value, parse in (("hush", arguments.boolean), ("1", arguments.java_boolean)):
        with pytest.raises(ConfigurationError) as caught:
            arguments.true_or_false(value, "s", parse)
        assert str(caught.value) == "s must be true or false"
