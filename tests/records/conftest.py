"""Runs a test with both implementations of the record decoder: ``pytestmark = pytest.mark.usefixtures("kernel")``."""

from __future__ import annotations

import sysconfig

import pytest

from tests.support.decoders import IMPLEMENTATIONS, SEAM

collect_ignore = [] if sysconfig.get_config_var("Py_GIL_DISABLED") else ["test_free_threaded.py"]
"""That file is about interpreters without a lock."""


@pytest.fixture(params=list(IMPLEMENTATIONS))
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the implementation that the test uses."""
    use(IMPLEMENTATIONS[request.param], monkeypatch)
    return str(request.param)


def use(implementation: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the record modules use one implementation."""
    for module, name in SEAM:
        monkeypatch.setattr(module, name, getattr(implementation, name))
