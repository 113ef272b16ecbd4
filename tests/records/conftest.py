"""Runs a test over both implementations of the record decoder: ``pytestmark = pytest.mark.usefixtures("kernel")``."""

from __future__ import annotations

import pytest

from tests.support.decoders import IMPLEMENTATIONS, SEAM


@pytest.fixture(params=list(IMPLEMENTATIONS))
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the implementation that is in use during the test."""
    use(IMPLEMENTATIONS[request.param], monkeypatch)
    return str(request.param)


def use(implementation: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts an implementation behind the seam."""
    for module, name in SEAM:
        monkeypatch.setattr(module, name, getattr(implementation, name))
