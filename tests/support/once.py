"""Runs a set-up step once for all processes of a test run."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.support.artifacts import file_lock

if TYPE_CHECKING:
    from tests.support.kafka_broker import KafkaBroker

__all__ = ["SetUpFailedError", "once_per_run"]


class SetUpFailedError(RuntimeError):
    """A set-up step failed earlier in this run, perhaps in another process. The message has the first failure's traceback."""


def once_per_run(broker: KafkaBroker, name: str, write: Callable[[], object], *, restarts: bool = False) -> None:
    """Calls ``write``, which writes to the broker, unless this run already did so under ``name``. Returns when it is done.

    The broker does not restart meanwhile, unless ``write`` ``restarts`` it: then no test uses the broker.
    Raises the error of ``write``, and SetUpFailedError for later calls.
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
                write()
        except BaseException:
            failed.write_text(traceback.format_exc())
            raise
        done.touch()
