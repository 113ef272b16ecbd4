"""What a process of Spark keeps from task to task belongs to one test here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.spark_worker import forget_tasks


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    yield
    forget_tasks()
