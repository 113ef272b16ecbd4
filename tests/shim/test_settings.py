"""The declarations of the shim's settings: each has what its flag, its field and its table row need."""

from __future__ import annotations

import pytest

from kafka_remote_client.settings import default_of
from kafka_remote_client.shim.settings import SHIM_SETTINGS, shim_default, shim_setting


@pytest.mark.parametrize("setting", SHIM_SETTINGS.values(), ids=lambda setting: setting.name)
def test_declaration_is_complete(setting: object) -> None:
    declared = shim_setting(setting.name)  # type: ignore[attr-defined]
    assert declared.doc.endswith(".")
    assert declared.flag is None or declared.flag.startswith("--")
    assert isinstance(declared.default, declared.type) or (declared.default is None and declared.type is not bool)
    if declared.minimum is not None:
        assert declared.maximum is not None
        assert declared.default is None or declared.minimum <= declared.default <= declared.maximum  # type: ignore[operator]


def test_command_requires_brokers_an_address_and_a_store() -> None:
    required = {setting.name for setting in SHIM_SETTINGS.values() if setting.required}
    assert required == {"bootstrap_servers", "listen", "store"}


def test_flags_are_unique() -> None:
    flags = [setting.flag for setting in SHIM_SETTINGS.values() if setting.flag]
    assert len(set(flags)) == len(flags)


def test_settings_of_both_client_and_shim_have_one_default() -> None:
    assert shim_default("range_bytes") == default_of("fetch.remote.range.bytes")
    assert shim_default("layout") == default_of("remote.storage.store.layout")
    assert shim_default("metadata_topic") == default_of("fetch.remote.metadata.topic")
