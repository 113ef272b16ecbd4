"""Threads that start, and threads that the operating system refuses."""

from __future__ import annotations

import logging
import threading
from functools import partial

import pytest

from kafka_remote_client.threads import side_by_side, start_thread


def refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_thread_runs_and_keeps_no_process_alive() -> None:
    ran: list[int] = []
    thread = start_thread("ours", ran.append, 7)
    assert thread is not None
    thread.join(60.0)
    assert (ran, thread.name, thread.daemon) == ([7], "ours", True)


def test_a_refused_thread_is_none_and_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert start_thread("refused", print) is None
        assert start_thread("refused", print) is None
    said = "the thread refused cannot be started: can't start new thread"
    assert warnings() == [said]
    thread = start_thread("refused", len, "")
    assert thread is not None
    thread.join(60.0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert start_thread("refused", print) is None
    assert warnings() == [said, said]


def test_calls_run_at_once_and_return_their_results_in_order() -> None:
    together = threading.Barrier(3)

    def call(number: int) -> int:
        together.wait(60.0)
        return number

    assert side_by_side("ours", [partial(call, number) for number in range(3)]) == [0, 1, 2]
    assert side_by_side("ours", []) == []


def test_calls_whose_threads_are_refused_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", refuse)
    ran_in = side_by_side("ours", [threading.current_thread] * 3)
    assert ran_in == [threading.current_thread()] * 3


@pytest.mark.parametrize("failing", [0, 1])
def test_an_exception_of_a_call_is_raised_after_all_calls(failing: int) -> None:
    over: list[int] = []

    def call(number: int) -> None:
        if number == failing:
            raise KeyError("defect")
        over.append(number)

    with pytest.raises(KeyError, match="defect"):
        side_by_side("ours", [partial(call, number) for number in range(3)])
    assert sorted(over) == [number for number in range(3) if number != failing]
