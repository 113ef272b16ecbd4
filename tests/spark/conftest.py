"""Each test here has its own process-wide state of Spark tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.spark_worker import close_task_state


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    yield
    close_task_state()
