"""A progress bar: tasks done, of all tasks of the jobs that a block of code starts.

It is shown only in a terminal or in a notebook. In a job whose standard error is a file, nothing is
printed; nor without ``rich`` (the extra ``cli``), or on Spark Connect, which has no status tracker.

::

    the block's thread   local property spark.jobGroup.id ──► its jobs
    the bar's thread     every half second: status tracker ──► jobs of the group ──► stages ──► tasks

References: PySpark's StatusTracker.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.scanning.progress_bar import TaskBar, terminal_bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["show_progress", "tasks_of_group"]

_log = logging.getLogger(__name__)

_GROUP = "spark.jobGroup.id"
_SECONDS = 0.5
_LAST_LOOKS, _LAST_SECONDS = 5, 0.1


@contextmanager
def show_progress(
    spark: SparkSession,
    description: str = "splits",
    *,
    make_bar: Callable[[str], TaskBar | None] | None = None,
    clock: Clock | None = None,
) -> Iterator[None]:
    """Shows the progress of the jobs that this thread starts in the ``with`` block, in a terminal or a notebook.

    The jobs get a separate job group, unless the thread has one. ``make_bar`` returns another bar, or none.
    """
    context = _spark_context(spark)
    bar = None if context is None else (make_bar or terminal_bar)(description)
    if context is None or bar is None:
        yield
        return
    before = context.getLocalProperty(_GROUP)
    group = before or f"kafka-remote-{uuid.uuid4()}"
    context.setLocalProperty(_GROUP, group)
    over = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(context.statusTracker(), group, bar, over, clock or SystemClock()), name="kafka-remote-progress"
    )
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        context.setLocalProperty(_GROUP, before)


def tasks_of_group(tracker: Any, group: str) -> tuple[int, int]:
    """Tasks done, and tasks in all, of the jobs of a group.

    Stages that have not begun, or are dropped, do not count: a stage that a job skips, because its result exists, never begins.
    """
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            found = tracker.getStageInfo(stage)
            if found is not None and (found.numActiveTasks or found.numCompletedTasks or found.numFailedTasks):
                done += found.numCompletedTasks
                total += found.numTasks
    return done, total


def _watch(tracker: Any, group: str, bar: TaskBar, over: threading.Event, clock: Clock) -> None:
    """Spark's tracker gets a task's end a little later, so it is queried some more times at the end.

    If Spark no longer answers, the bar does not change.
    """
    never, looks_left = threading.Event(), _LAST_LOOKS
    try:
        while looks_left:
            if over.is_set():
                clock.wait(never, _LAST_SECONDS)
            else:
                clock.wait(over, _SECONDS)
            done, total = tasks_of_group(tracker, group)
            bar.update(done, total)
            if over.is_set():
                looks_left = 0 if done >= total else looks_left - 1
    except Exception as error:  # noqa: BLE001 - a bar must not disturb the job, whatever py4j has to say
        _log.info("stopped showing progress: %s", type(error).__name__)
    finally:
        bar.close()


def _spark_context(spark: Any) -> Any:
    """``None`` on Spark Connect, whose sessions refuse to have one."""
    try:
        return spark.sparkContext
    except Exception:  # noqa: BLE001 - PySpark's own kind, of a module that this one does without
        return None
