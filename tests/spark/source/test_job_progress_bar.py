from __future__ import annotations

import io
import re
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_remote_client.spark.source.job_progress_bar import show_progress, tasks_of_group
from tests.support.locations import ManualClock


class Tracker:
    """Three stages of a job: one runs, one is skipped, one is not known."""

    def __init__(self) -> None:
        self.done = 0

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [1, 2] if group.startswith("kafka-remote-") or group == "own" else []

    def getJobInfo(self, job: int) -> Any:
        return SimpleNamespace(stageIds=[7, 8, 9]) if job == 1 else None

    def getStageInfo(self, stage: int) -> Any:
        if stage == 7:
            return SimpleNamespace(numTasks=5, numActiveTasks=1, numCompletedTasks=self.done, numFailedTasks=0)
        return SimpleNamespace(numTasks=9, numActiveTasks=0, numCompletedTasks=0, numFailedTasks=0) if stage == 8 else None


class Context:
    """A SparkContext's local properties and its tracker."""

    def __init__(self, group: str | None = None) -> None:
        self.properties = {"spark.jobGroup.id": group}
        self.tracker = Tracker()

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties[name]

    def setLocalProperty(self, name: str, value: str | None) -> None:
        self.properties[name] = value

    def statusTracker(self) -> Tracker:
        return self.tracker


class Bar:
    def __init__(self) -> None:
        self.shown: list[tuple[int, int]] = []
        self.seen = threading.Event()
        self.closed = False

    def update(self, done: int, total: int) -> None:
        self.shown.append((done, total))
        self.seen.set()

    def close(self) -> None:
        self.closed = True


class Connect:
    @property
    def sparkContext(self) -> None:
        raise RuntimeError("not on Spark Connect")


def session(context: Context) -> Any:
    return SimpleNamespace(sparkContext=context)


def test_tasks_of_stages_that_are_known_count() -> None:
    tracker = Tracker()
    tracker.done = 3
    assert tasks_of_group(tracker, "own") == (3, 5)
    assert tasks_of_group(tracker, "other") == (0, 0)


def test_tasks_of_all_running_stages_add_up() -> None:
    """Two jobs of a group run at the same time, and one of them has two stages."""
    stages = {
        7: SimpleNamespace(numTasks=5, numActiveTasks=1, numCompletedTasks=3, numFailedTasks=0),
        8: SimpleNamespace(numTasks=4, numActiveTasks=0, numCompletedTasks=4, numFailedTasks=0),
        9: SimpleNamespace(numTasks=6, numActiveTasks=0, numCompletedTasks=0, numFailedTasks=1),
    }
    jobs = {1: SimpleNamespace(stageIds=[7, 8]), 2: SimpleNamespace(stageIds=[9])}
    tracker = SimpleNamespace(getJobIdsForGroup=lambda _: [1, 2], getJobInfo=jobs.get, getStageInfo=stages.get)
    assert tasks_of_group(tracker, "own") == (7, 15)


def test_jobs_of_the_block_are_shown_to_the_end() -> None:
    context, bar = Context(), Bar()
    with show_progress(session(context), make_bar=lambda _: bar, clock=ManualClock()):
        group = context.properties["spark.jobGroup.id"]
        assert group is not None
        assert group.startswith("kafka-remote-")
        assert bar.seen.wait(60)
        context.tracker.done = 5
    assert bar.shown[0][1] == 5
    assert bar.shown[-1] == (5, 5)
    assert bar.closed
    assert context.properties["spark.jobGroup.id"] is None


def test_a_job_group_of_the_thread_s_own_stays() -> None:
    context, bar = Context("own"), Bar()
    with show_progress(session(context), make_bar=lambda _: bar, clock=ManualClock()):
        assert context.properties["spark.jobGroup.id"] == "own"
    assert bar.closed
    assert context.properties["spark.jobGroup.id"] == "own"


def test_nothing_is_shown_on_connect_nor_without_a_bar() -> None:
    connect: Any = Connect()
    with show_progress(connect, make_bar=lambda _: pytest.fail("nobody asks for a bar")):
        pass
    context = Context()
    with show_progress(session(context), make_bar=lambda _: None):
        assert context.properties["spark.jobGroup.id"] is None


def test_what_the_block_raises_comes_out_and_the_bar_ends() -> None:
    context, bar = Context(), Bar()
    with pytest.raises(KeyError), show_progress(session(context), make_bar=lambda _: bar, clock=ManualClock()):
        raise KeyError
    assert bar.closed
    assert context.properties["spark.jobGroup.id"] is None


def test_spark_may_tell_of_a_task_s_end_a_little_later() -> None:
    context, bar = Context(), Bar()
    context.tracker.done = 4
    with show_progress(session(context), make_bar=lambda _: bar, clock=ManualClock()):
        pass
    assert bar.shown[-1] == (4, 5)
    assert len(bar.shown) >= 5


def test_a_stopped_session_raises_nothing() -> None:
    context, bar = Context(), Bar()
    context.tracker.getJobIdsForGroup = None  # type: ignore[assignment] # nothing answers
    with show_progress(session(context), make_bar=lambda _: bar, clock=ManualClock()):
        pass
    assert (bar.shown, bar.closed) == ([], True)


class Screen(io.StringIO):
    """Standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_in_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    context = Context()
    context.tracker.done = 5
    with show_progress(session(context), "backfill"):  # as applications call it
        pass
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "backfill" in shown
    assert "5/5" in shown


def test_a_job_stays_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with show_progress(session(Context())):
        pass
    assert log.getvalue() == ""


def test_without_rich_all_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with show_progress(session(Context())):
        pass
    assert screen.getvalue() == ""
