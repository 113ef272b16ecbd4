from kafka_remote_client.breaker import BreakerState, StoreHealth, StoresHealth


def opened(now: float = 0.0) -> StoreHealth:
    health = StoreHealth(failures=3, reset_seconds=10.0)
    for _ in range(3):
        health.failed(now)
    assert health.state is BreakerState.OPEN
    return health


def test_opens_after_the_limit_of_failures_within_the_window() -> None:
    health = StoreHealth(failures=3, reset_seconds=10.0)
    health.failed(0.0)
    health.failed(1.0)
    assert health.allows(1.0)
    health.failed(2.0)
    assert not health.allows(2.0)
    assert health.open_until(2.0) == 12.0


def test_old_failures_do_not_count() -> None:
    health = StoreHealth(failures=3, reset_seconds=10.0)
    for now in (0.0, 11.0, 22.0, 33.0):
        health.failed(now)
    assert health.state is BreakerState.CLOSED


def test_a_success_clears_the_count() -> None:
    health = StoreHealth(failures=2, reset_seconds=10.0)
    health.failed(0.0)
    health.succeeded()
    health.failed(0.1)
    assert health.state is BreakerState.CLOSED


def test_a_store_gets_no_requests_during_its_pause() -> None:
    health = StoreHealth(failures=3, reset_seconds=10.0)
    health.left_alone(5.0)
    assert not health.allows(4.9)
    assert health.open_until(4.9) == 5.0
    assert health.allows(5.0)
    assert not health.allows(5.1)
    health.succeeded()
    assert health.allows(5.2)


def test_a_pause_shorter_than_the_breakers_changes_nothing() -> None:
    health = opened()
    health.left_alone(5.0)
    assert not health.allows(9.9)
    health.left_alone(20.0)
    assert not health.allows(19.9)
    assert health.allows(20.0)


def test_exactly_one_request_is_allowed_after_the_reset_time() -> None:
    health = opened()
    assert not health.allows(9.9)
    assert health.open_until(10.0) == 10.0
    assert health.allows(10.0)
    assert health.state is BreakerState.HALF_OPEN
    assert not health.allows(10.1)


def test_closes_when_the_probe_succeeds() -> None:
    health = opened()
    assert health.allows(10.0)
    health.succeeded()
    assert health.allows(10.1)


def test_opens_again_when_the_probe_fails() -> None:
    health = opened()
    assert health.allows(10.0)
    health.failed(11.0)
    assert not health.allows(20.9)
    assert health.allows(21.0)


def test_another_probe_is_allowed_if_the_first_never_reports() -> None:
    health = opened()
    assert health.allows(10.0)
    assert health.open_until(19.0) == 20.0
    assert not health.allows(19.0)
    assert health.allows(20.0)


def test_a_failure_that_arrives_late_does_not_move_an_open_breaker() -> None:
    health = opened()
    health.failed(5.0)
    assert health.allows(10.0)


def test_a_success_that_arrives_late_does_not_close_an_open_breaker() -> None:
    health = opened()
    health.succeeded()
    assert not health.allows(9.9)
    assert health.allows(10.0)


def test_retries_stop_when_the_budget_is_used_up_and_successes_refill_it() -> None:
    health = StoreHealth(failures=3, reset_seconds=10.0)
    taken = 0
    while health.take_retry():
        taken += 1
    assert taken == 100
    for _ in range(5):
        assert not health.take_retry()
        health.succeeded()
    assert health.take_retry()
    assert not health.take_retry()


def test_each_store_has_its_own_health() -> None:
    stores = StoresHealth(1, 10.0)
    stores.of("a").failed(0.0)
    assert stores.of("a").open_until(1.0) == 10.0
    assert stores.of("b").open_until(1.0) == 1.0


def test_failures_count_for_ten_seconds() -> None:
    for last, state in [(10.0, BreakerState.OPEN), (10.5, BreakerState.CLOSED)]:
        health = StoreHealth(failures=3, reset_seconds=10.0)
        for now in (0.0, 5.0, last):
            health.failed(now)
        assert health.state is state


def test_a_pause_replaces_the_wait_for_a_probe() -> None:
    health = opened()
    assert health.allows(10.0)
    health.left_alone(15.0)
    assert not health.allows(14.9)
    assert health.allows(15.0)


def test_a_closed_breaker_keeps_a_pause_however_short() -> None:
    health = opened()
    assert health.allows(10.0)
    health.succeeded()
    health.left_alone(12.0)
    assert not health.allows(11.9)
    assert health.allows(12.0)


def test_successes_do_not_raise_the_retry_budget() -> None:
    health = StoreHealth(failures=3, reset_seconds=10.0)
    for _ in range(10):
        health.succeeded()
    assert sum(health.take_retry() for _ in range(200)) == 100
