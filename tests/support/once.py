"""Runs a set-up step once for all processes of a test run."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.artifacts import file_lock
from tests.support.kafka_broker import KafkaBroker

__all__ = ["once_per_run"]


def once_per_run(broker: KafkaBroker, name: str, write: Callable[[], object]) -> None:
    """Calls ``write``, which writes to the broker, unless this run already did so under ``name``. Returns when it is done.

    The broker is not restarted meanwhile.
    """
    run = broker.directory.parent
    done = run / f"{name}.written"
    with file_lock(run / f"{name}.lock"):
        if not done.exists():
            with file_lock(run / "restart.lock", shared=True):
                write()
            done.touch()
