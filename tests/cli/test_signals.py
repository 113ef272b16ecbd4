import signal
import threading
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
def test_a_signal_arrives(number: int) -> None:
    with stop_signals() as arrived:
        signal.raise_signal(number)
        assert arrived.get(timeout=5) == number
        with pytest.raises(TimeoutError):
            arrived.get(timeout=0.001)


def test_a_signal_arrives_while_the_main_thread_waits() -> None:
    """Its handler runs in the main thread, which does not go on before the signal has arrived."""
    got = []

    def in_another_thread() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        got.append(arrived.get(timeout=5))

    with stop_signals() as arrived:
        thread = threading.Thread(target=in_another_thread)
        thread.start()
        thread.join()
    assert got == [signal.SIGHUP]


def test_a_signal_that_others_handle_does_not_end_the_wait() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with stop_signals() as arrived:
            for number in (signal.SIGUSR1, signal.SIGHUP):
                signal.raise_signal(number)
            assert arrived.get(timeout=5) == signal.SIGHUP
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_second_signal_to_stop_ends_the_process() -> None:
    with stop_signals() as arrived:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGHUP):
            signal.raise_signal(number)
        assert [arrived.get(timeout=5) for _ in range(3)] == [signal.SIGTERM, signal.SIGHUP, signal.SIGHUP]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) not in {signal.SIG_DFL, signal.default_int_handler}
