"""Runs a test with both implementations of the record decoder: ``pytestmark = pytest.mark.usefixtures("kernel")``."""

from __future__ import annotations

import pytest

from tests.support.decoders import IMPLEMENTATIONS, SEAM


@pytest.fixture(params=list(IMPLEMENTATIONS))
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the implementation that the test uses."""
    use(IMPLEMENTATIONS[request.param], monkeypatch)
    return str(request.param)


def use(implementation: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the record modules use one implementation."""
    for module, name in SEAM:
        monkeypatch.setattr(module, name, getattr(implementation, name))
