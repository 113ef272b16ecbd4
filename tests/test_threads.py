"""Threads that start, and threads that the operating system refuses."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import weakref
from concurrent.futures import CancelledError
from functools import partial
from pathlib import Path

import pytest

import kafka_remote_client
from kafka_remote_client.threads import DaemonExecutor, side_by_side, start_thread
from tests.support.waiting import wait_until


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


def threads_of(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def test_an_executor_returns_results_and_exceptions_of_calls() -> None:
    with DaemonExecutor(2, "results") as executor:
        assert list(executor.map(divmod, [7, 8], [2, 3])) == [(3, 1), (2, 2)]
        assert executor.submit(int, "ff", base=16).result(60.0) == 255
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(60.0)
        assert all(thread.daemon for thread in threads_of("results"))
    assert threads_of("results") == []
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(int)


def test_an_executor_starts_a_thread_only_if_all_are_busy() -> None:
    with DaemonExecutor(2, "busy") as executor:
        for _ in range(100):
            executor.submit(int).result(60.0)
        assert len(threads_of("busy")) == 1
        go = threading.Event()
        waiting = [executor.submit(go.wait, 60.0) for _ in range(5)]
        assert len(threads_of("busy")) == 2
        go.set()
        assert all(future.result(60.0) for future in waiting)


def test_a_shutdown_cancels_what_has_not_begun() -> None:
    executor = DaemonExecutor(1, "cancelling")
    begun, go = threading.Event(), threading.Event()
    running = executor.submit(lambda: (begun.set(), go.wait(60.0)))
    assert begun.wait(60.0)
    waiting = executor.submit(int)
    cancelled = executor.submit(int)
    assert cancelled.cancel()
    executor.shutdown(wait=False, cancel_futures=True)
    executor.shutdown(wait=False, cancel_futures=True)
    go.set()
    executor.shutdown()
    assert running.result(60.0) == (None, True)
    with pytest.raises(CancelledError):
        waiting.result(60.0)


def test_a_cancelled_call_does_not_run() -> None:
    with DaemonExecutor(1, "cancelled") as executor:
        go = threading.Event()
        executor.submit(go.wait, 60.0)
        ran: list[int] = []
        assert executor.submit(ran.append, 1).cancel()
        go.set()
    assert ran == []


def test_an_exception_of_a_call_is_in_no_cycle() -> None:
    class Thing:
        pass

    def call() -> None:
        thing = Thing()
        things.append(weakref.ref(thing))
        raise KeyError("defect")

    things: list[weakref.ref[Thing]] = []
    gc.disable()
    try:
        with DaemonExecutor(1, "cycles") as executor:
            assert isinstance(executor.submit(call).exception(60.0), KeyError)
        assert things[0]() is None
    finally:
        gc.enable()


def test_an_executor_that_is_dropped_ends_its_threads() -> None:
    executor = DaemonExecutor(1, "dropped")
    executor.submit(int).result(60.0)
    del executor
    gc.collect()
    wait_until(lambda: not threads_of("dropped"), "the thread to end")


def test_an_executor_without_a_thread_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = DaemonExecutor(2, "alone")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="the thread alone cannot be started"):
            executor.submit(int)
    go = threading.Event()
    first = executor.submit(go.wait, 60.0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    second = executor.submit(int)  # waits for the one thread
    go.set()
    assert (first.result(60.0), second.result(60.0)) == (True, 0)
    executor.shutdown()


_PROGRAM = """
import threading
from kafka_remote_client.threads import DaemonExecutor

executor = DaemonExecutor(1, "late")
begun, go = threading.Event(), threading.Event()

def late():
    threading.main_thread().join()
    print(executor.submit(str, "a call").result(60))
    executor.submit(lambda: (begun.set(), go.wait(60), print("the end")))
    begun.wait(60)
    threading.Timer(0.1, go.set).start()

threading.Thread(target=late).start()
"""


def test_an_executor_works_until_the_last_thread_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == ("a call\nthe end\n", "")


@pytest.mark.parametrize("package", ["fetch", "location", "remote_log", "scanning"])
def test_no_package_of_an_application_has_a_pool_of_the_main_thread(package: str) -> None:
    root = Path(kafka_remote_client.__file__).parent / package
    files = list(root.rglob("*.py"))
    assert files
    assert [file.name for file in files if "ThreadPoolExecutor" in file.read_text()] == []
