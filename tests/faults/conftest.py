"""All fault tests run at DEBUG, and a search for secrets fails on a signed query, a key or a token in any text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.canary import Canary


@pytest.fixture(autouse=True)
def canary() -> Iterator[Canary]:
    """The secrets that the test's code got, and its output."""
    with Canary() as listening:
        yield listening
    assert not listening.leaks()[:5]
