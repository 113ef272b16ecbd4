from __future__ import annotations

import sys

import pytest

from kafka_remote_client.remote_log.aiven.extra import can_decrypt


def test_can_decrypt_tells_if_the_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_decrypt()
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert not can_decrypt()
