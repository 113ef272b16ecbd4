"""Runs a test over both implementations of the record decoder: ``pytestmark = pytest.mark.usefixtures("kernel")``."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafka_remote_client.records import batch, columns, completed_fetch, input_stream


def _implementations() -> dict[str, object]:
    found: dict[str, object] = {"pure": SimpleNamespace(scan_batches=batch.scan_batches, ColumnBuilder=columns.ColumnBuilder)}
    try:
        from kafka_remote_client.records import _kernel
    except ImportError:
        return found
    return found | {"compiled": _kernel}


IMPLEMENTATIONS = _implementations()


@pytest.fixture(params=list(IMPLEMENTATIONS))
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of the implementation that is in use during the test."""
    use(IMPLEMENTATIONS[request.param], monkeypatch)
    return str(request.param)


def use(implementation: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts an implementation behind the seam."""
    for module in (completed_fetch, input_stream):
        monkeypatch.setattr(module, "scan_batches", implementation.scan_batches)
    monkeypatch.setattr(completed_fetch, "ColumnBuilder", implementation.ColumnBuilder)
