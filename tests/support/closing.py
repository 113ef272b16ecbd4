"""Checks a waiting call whose resource another thread closes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kafka_remote_client.errors import RemoteStorageUnavailableError

__all__ = ["check_closing_refuses"]


def check_closing_refuses(ask: Callable[[], object], close: Callable[[], object]) -> None:
    """Checks that ``ask``, which would wait for long, raises "unavailable" after ``close`` is called."""
    outcome: list[str] = []

    def asking() -> None:
        with pytest.raises(RemoteStorageUnavailableError):
            ask()
        outcome.append("refused")

    thread = threading.Thread(target=asking)
    thread.start()
    close()
    thread.join(10)
    assert outcome == ["refused"]
