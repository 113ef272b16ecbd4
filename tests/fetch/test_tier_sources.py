"""The layout of a configured store. The sources themselves: test_location_sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_remote_client.config import split_config
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.tier_sources import configured_layout
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from tests.support.aiven import private_key


def test_the_layout_has_its_prefix_and_keys(tmp_path: Path) -> None:
    key = tmp_path / "key.der"
    key.write_bytes(private_key())
    settings = {
        "fetch.remote.location.source": "listing",
        "remote.storage.store.url": "file:///tier",
        "remote.storage.store.layout": "aiven",
        "remote.storage.store.key.prefix": "p/",
        "remote.storage.store.encryption.keys": f"one={key}, two={key},",
    }
    remote, _ = split_config(settings)
    layout = configured_layout(remote)
    assert isinstance(layout, AivenLayout)
    assert layout.prefix == "p/"
    for wrong in ("one", "=file", f"one={key},one={key}"):
        remote, _ = split_config({**settings, "remote.storage.store.encryption.keys": wrong})
        with pytest.raises(ConfigurationError, match=r"remote\.storage\.store\.encryption\.keys"):
            configured_layout(remote)
