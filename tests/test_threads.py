"""Threads that start, and threads that the system refuses."""

from __future__ import annotations

import logging
import threading

import pytest

from kafka_remote_client.threads import start_thread


def refuse(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_thread_runs_and_keeps_no_process_alive() -> None:
    ran: list[int] = []
    thread = start_thread("ours", ran.append, 7)
    assert thread is not None
    thread.join(60.0)
    assert (ran, thread.name, thread.daemon) == ([7], "ours", True)


def test_a_refused_thread_is_none_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
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
