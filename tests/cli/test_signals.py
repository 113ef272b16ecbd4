import signal
from collections.abc import Iterator

import pytest

from kafka_remote_client.cli.signals import stop_signals

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    """Restores the handlers of the test's process."""
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", _NUMBERS)
def test_a_signal_arrives_in_the_queue(number: int) -> None:
    arrived = stop_signals()
    signal.raise_signal(number)
    assert arrived.get(timeout=5) == number
    assert arrived.empty()


def test_the_second_signal_to_stop_ends_the_process() -> None:
    arrived = stop_signals()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
        signal.raise_signal(number)
    assert [arrived.get(timeout=5) for _ in range(3)] == [signal.SIGTERM, signal.SIGHUP, signal.SIGHUP]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) not in {signal.SIG_DFL, signal.default_int_handler}
