"""All tests of faults run at DEBUG and are searched for secrets: a signed query, a key or a token in any text is a failure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.canary import Canary


@pytest.fixture(autouse=True)
def canary() -> Iterator[Canary]:
    """What the test's code was given as secrets, and what it has said."""
    with Canary() as listening:
        yield listening
    assert not listening.leaks()[:5]
