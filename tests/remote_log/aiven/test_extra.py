from __future__ import annotations

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.aiven.extra import missing_extra


def test_the_error_has_the_pip_command():
    error = missing_extra(ModuleNotFoundError("No module named 'Crypto'", name="Crypto"))
    assert isinstance(error, ConfigurationError)
    assert str(error) == "encrypted segments need Crypto: pip install 'kafka-remote-client[aiven]'"
