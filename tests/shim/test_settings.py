"""The declarations of the shim's settings: each has what its flag, its field and its table row need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_remote_client.settings import default_of
from kafka_remote_client.shim.settings import SHIM_SETTINGS, ShimSetting, shim_default, shim_setting

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "shim-settings.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| (\w+) \|([^|]*)\|([^|]*)\|([^|]*)\|", PAGE, re.MULTILINE)
"""Name, flag, type, default, unit, and bounds or choices of each setting."""
FORMS = {
    None: {"advertised_host", "log_format"},
    "DIR": {"metadata_snapshot_dir"},
    "FILE": {"signing_key", "ssl_key_password"},
    "HOST:PORT": {"listen", "management_listen", "origin_listen"},
    "HOST:PORT,…": {"bootstrap_servers"},
    "ID,…": {"node_ids"},
    "KEY=VALUE|@FILE": {"broker_settings", "metadata_consumer", "store_options"},
    "KEYID=PRIVATE_KEY_FILE": {"encryption_keys"},
    "NAME": {"layout"},
    "PATTERN.FIELD=VALUE": {"client_limits", "topic_policies"},
    "PEM": {"ssl_certificate", "ssl_client_ca", "ssl_key"},
    "PREFIX": {"key_prefix"},
    "TOPIC": {"metadata_topic"},
    "URL": {"origin_public_url", "store"},
}
"""What --help shows for the value of an option, with the settings that are neither numbers nor switches."""


def shown(value: object) -> str:
    """Returns a default as the page shows it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value or "")


@pytest.mark.parametrize("setting", SHIM_SETTINGS.values(), ids=lambda setting: setting.name)
def test_declaration_is_complete(setting: object) -> None:
    declared = shim_setting(setting.name)
    assert declared.doc.endswith(".")
    assert declared.flag is None or declared.flag.startswith("--")
    assert isinstance(declared.default, declared.type) or (declared.default is None and declared.type is not bool)
    if declared.minimum is not None:
        assert declared.maximum is not None
        assert declared.default is None or declared.minimum <= declared.default <= declared.maximum


def test_command_requires_brokers_an_address_and_a_store() -> None:
    required = {setting.name for setting in SHIM_SETTINGS.values() if setting.required}
    assert required == {"bootstrap_servers", "listen", "store"}


def test_each_declaration_is_the_documented_one() -> None:
    def row(setting: ShimSetting) -> tuple[str, ...]:
        bounds = ", ".join(setting.choices)
        if setting.minimum is not None:
            bounds = f"{setting.minimum:.15g} to {setting.maximum:.15g}"
        return setting.name, setting.flag, setting.type.__name__, shown(setting.default), setting.unit, bounds

    documented = [tuple(cell.strip() for cell in cells) for cells in ROWS]
    assert [row(setting) for setting in SHIM_SETTINGS.values()] == documented


def test_help_shows_the_form_of_each_text() -> None:
    texts = [setting for setting in SHIM_SETTINGS.values() if setting.type not in {bool, float, int}]
    assert {form: {setting.name for setting in texts if setting.metavar == form} for form in FORMS} == FORMS
    assert {setting.name for setting in texts} == set().union(*FORMS.values())


def test_secrets_and_patterns_are_declared() -> None:
    assert {setting.name for setting in SHIM_SETTINGS.values() if setting.secret} == {"signing_key", "ssl_key_password"}
    assert {setting.name for setting in SHIM_SETTINGS.values() if setting.by_pattern} == {"client_limits", "topic_policies"}


def test_flags_are_unique() -> None:
    flags = [setting.flag for setting in SHIM_SETTINGS.values() if setting.flag]
    assert len(set(flags)) == len(flags)


def test_settings_of_both_client_and_shim_have_one_default() -> None:
    assert shim_default("range_bytes") == default_of("fetch.remote.range.bytes")
    assert shim_default("layout") == default_of("remote.storage.store.layout")
    assert shim_default("metadata_topic") == default_of("fetch.remote.metadata.topic")
