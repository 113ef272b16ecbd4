from __future__ import annotations

import sys

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.aiven.extra import can_decrypt, missing_extra


def test_the_error_has_the_pip_command():
    error = missing_extra(ModuleNotFoundError("No module named 'Crypto'", name="Crypto"))
    assert isinstance(error, ConfigurationError)
    assert str(error) == "encrypted segments need Crypto: pip install 'kafka-remote-client[aiven]'"


def test_can_decrypt_tells_if_the_package_is_installed(monkeypatch):
    assert can_decrypt()
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert not can_decrypt()
