"""Runs a set-up step once for all processes of a test run."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.artifacts import file_lock

if TYPE_CHECKING:
    from tests.support.kafka_broker import KafkaBroker

__all__ = ["SetUpFailedError", "once_per_run"]


class SetUpFailedError(RuntimeError):
    """A set-up step failed earlier in this run, perhaps in another process. The message has the first failure's traceback."""


def once_per_run(
    broker: KafkaBroker,
    name: str,
    write: Callable[[], object],
    *,
    restarts: bool = False,
    instead: Callable[[], object] | None = None,
) -> None:
    """Calls ``write``, which writes to the broker, unless this run already did so under ``name``. Returns when it is done.

    The broker does not restart meanwhile, unless ``write`` ``restarts`` it: then no test uses the broker.
    With ``instead``, a failure of ``write`` goes to ``<name>.retried`` in the run's directory, which pytest prints at its end,
    and ``instead`` runs. It uses other names than ``write``, so that no test finds what ``write`` left behind.
    Raises the error of the last of both, and SetUpFailedError for later calls.
    """
    run = broker.directory.parent
    done, failed = run / f"{name}.written", run / f"{name}.failed"
    with file_lock(run / f"{name}.lock"):
        if done.exists():
            return
        if failed.exists():
            raise SetUpFailedError(f"{name} could not be written: {failed.read_text()}")
        try:
            with file_lock(run / "restart.lock", shared=not restarts):
                _written(run / f"{name}.retried", write, instead)
        except BaseException:
            failed.write_text(traceback.format_exc())
            raise
        done.touch()


def _written(retried: Path, write: Callable[[], object], instead: Callable[[], object] | None) -> None:
    if instead is None:
        write()
        return
    try:
        write()
    except Exception:
        retried.write_text(traceback.format_exc())
        instead()
