"""One world for all machines of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.state_machine.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world") / "tier") as made:
        yield made
