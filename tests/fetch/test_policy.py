from typing import ClassVar

import pytest

from kafka_remote_client.breaker import StoreHealth
from kafka_remote_client.errors import (
    Action,
    CorruptRecordError,
    DirectFetchError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    LocationError,
    LocationExpiredError,
    LocationNotGrantedError,
    LocationThrottledError,
    PeerUnreachableError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
    UnservedConnectionError,
    UnsupportedFormatError,
)
from kafka_remote_client.fetch.policy import (
    PENDING_PAUSE_SECONDS,
    POLICY,
    Budget,
    Rule,
    decide,
    is_store_failure,
    location_pause,
    retry_pause,
    rule_for,
    store_pause,
)
from kafka_remote_client.protocol import peer

CORRUPT = CorruptRecordError("x")


class UnlistedError(RemoteStorageError):
    """A kind that the table does not have."""

    action: ClassVar[Action] = Action.RETRY


def decision(
    error: DirectFetchError, *, attempts: int = 1, corrupt: int = 0, retries: int = 2, relocated: bool = False
) -> Action:
    health = StoreHealth(failures=5, reset_seconds=10.0)
    return decide(error, attempts=attempts, corrupt=corrupt, retries=retries, relocated=relocated, health=health)


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (RemoteStorageTimeoutError("x"), Action.BROKER),
        (RemoteStorageUnavailableError("x"), Action.RETRY),
        (RemoteStorageThrottledError("x"), Action.RETRY),
        (InvalidStorageResponseError("x"), Action.RETRY),
        (SegmentNotFoundError("x"), Action.RELOCATE),
        (RangeNotSatisfiableError("x"), Action.RELOCATE),
        (LocationExpiredError("x"), Action.RELOCATE),
        (RemoteStorageAccessError("x"), Action.RELOCATE),
        (ForbiddenLocationError("x"), Action.BROKER),
        (RemoteStorageError("x"), Action.BROKER),
        (UnsupportedFormatError("x"), Action.BROKER),
        (DirectFetchError("x"), Action.BROKER),
        (UnlistedError("x"), Action.BROKER),
    ],
)
def test_the_first_failure_gets_its_errors_own_action(error: DirectFetchError, first: Action) -> None:
    assert decision(error) is first


def test_retries_end_at_the_setting() -> None:
    assert decision(RemoteStorageUnavailableError("x"), attempts=2) is Action.RETRY
    assert decision(RemoteStorageUnavailableError("x"), attempts=3) is Action.BROKER


@pytest.mark.parametrize(
    ("attempts", "retries", "action"),
    [(10, 1, Action.RETRY), (11, 100, Action.BROKER), (1, 0, Action.BROKER)],
    ids=["the last", "one more", "no retries at all"],
)
def test_a_limited_request_rate_allows_ten_attempts(attempts: int, retries: int, action: Action) -> None:
    assert decision(RemoteStorageThrottledError("x"), attempts=attempts, retries=retries) is action


def test_damaged_bytes_are_read_once_more_after_any_number_of_attempts() -> None:
    assert decision(CORRUPT, attempts=9, corrupt=1) is Action.RETRY
    assert decision(CORRUPT, attempts=1, corrupt=2) is Action.BROKER


def test_a_second_relocation_without_progress_goes_to_the_broker() -> None:
    assert decision(LocationExpiredError("x"), relocated=True) is Action.BROKER


def test_no_retry_without_budget() -> None:
    health = StoreHealth(failures=5, reset_seconds=10.0)
    while health.take_retry():
        pass
    error = RemoteStorageUnavailableError("x")
    assert decide(error, attempts=1, corrupt=0, retries=2, relocated=False, health=health) is Action.BROKER


@pytest.mark.parametrize(("attempts", "expected"), [(1, 0.025), (2, 0.05), (3, 0.1), (20, 1.0)])
def test_pauses_double_with_jitter_up_to_two_seconds(attempts: int, expected: float) -> None:
    assert retry_pause(RemoteStorageUnavailableError("x"), attempts, 0.5) == pytest.approx(expected)


@pytest.mark.parametrize("asked", [0.0, 0.3, 2.0])
def test_a_short_pause_requested_by_the_store_is_kept(asked: float) -> None:
    error = RemoteStorageThrottledError("x", retry_after=asked)
    assert decision(error) is Action.RETRY
    assert retry_pause(error, 1, 0.5) == asked
    assert store_pause(error) == 0.0


@pytest.mark.parametrize(("asked", "pause"), [(2.1, 2.1), (30.0, 30.0), (3600.0, 30.0)])
def test_a_long_pause_requested_by_the_store_goes_to_the_broker(asked: float, pause: float) -> None:
    error = RemoteStorageThrottledError("x", retry_after=asked)
    assert decision(error) is Action.BROKER
    assert store_pause(error) == pause


@pytest.mark.parametrize("error", [RemoteStorageThrottledError("x"), RemoteStorageError("x")], ids=["not told", "other"])
def test_a_store_that_requests_no_pause_gets_none(error: RemoteStorageError) -> None:
    assert store_pause(error) == 0.0


def every_kind(kind: type[DirectFetchError] = DirectFetchError) -> list[type[DirectFetchError]]:
    """The classes of the package's own list: other code in this process may have loaded more."""
    below = (child for child in kind.__subclasses__() if child.__module__ == kind.__module__)
    return [kind, *(each for child in below for each in every_kind(child))]


@pytest.mark.parametrize("rule", POLICY, ids=lambda rule: rule.error.__name__)
def test_exactly_the_retried_actions_have_a_budget(rule: Rule) -> None:
    assert (rule.budget is Budget.NONE) == (rule.first_action in (Action.BROKER, Action.STOP))
    if rule.error is not LocationNotGrantedError:  # only a job that must have a location repeats its request
        assert rule.first_action is rule.error.action


def test_unlisted_error_has_the_rule_of_its_nearest_base() -> None:
    listed = {rule.error for rule in POLICY}
    for kind in every_kind():
        rule = rule_for(kind.__new__(kind))
        assert issubclass(kind, rule.error)
        assert kind not in listed or rule.error is kind
        assert kind.action is rule.error.action or rule.budget is Budget.NONE


def test_each_error_of_a_fetcher_has_its_own_rule() -> None:
    assert set(every_kind(RemoteStorageError)) <= {rule.error for rule in POLICY}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (LocationThrottledError("x", 3.0), 3.0),
        (LocationThrottledError("x", 30.0), 30.0),
        (LocationThrottledError("x", 31.0), 0.0),
        (RemoteStorageError("x"), 0.0),
        (None, 0.0),
    ],
)
def test_a_location_with_a_short_pause_is_waited_for(answer: object, expected: float) -> None:
    assert location_pause(answer, again=False) == location_pause(answer, again=True) == expected


@pytest.mark.parametrize("kind", [PeerUnreachableError, UnservedConnectionError])
def test_a_lost_peer_is_asked_again_after_its_pause_once(kind: type[LocationError]) -> None:
    assert location_pause(kind("x"), again=False) == 0.7 > 1.25 * peer._RECONNECT_SECONDS[0]
    assert location_pause(kind("x"), again=True) == 0.0


def test_only_failures_of_the_store_count_against_it() -> None:
    counted = {
        RemoteStorageTimeoutError,
        RemoteStorageThrottledError,
        RemoteStorageUnavailableError,
        InvalidStorageResponseError,
        RemoteStorageAccessError,
        RemoteStorageError,
    }
    assert {rule.error for rule in POLICY if is_store_failure(rule.error.__new__(rule.error))} == counted


def test_a_pending_location_is_requested_again_soon() -> None:
    assert 0.0 < PENDING_PAUSE_SECONDS <= 0.1
