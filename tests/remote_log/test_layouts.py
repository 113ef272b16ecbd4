from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.registry import LAYOUTS, plugin_names
from kafka_remote_client.remote_log import layouts
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.layouts import LayoutOptions, encryption_key_files, layout_named
from tests.support.aiven import private_key
from tests.support.tier import metadata


def test_every_layout_is_found_by_its_own_name():
    names = plugin_names(LAYOUTS)
    assert names == ["aiven", "local-tiered-storage"]
    assert [layout_named(name).name for name in names] == names


def test_the_old_spelling_works_with_one_warning(caplog):
    layouts._warn_once.cache_clear()
    with caplog.at_level("WARNING", "kafka_remote_client"):
        assert [layout_named("local").name for _ in range(3)] == ["local-tiered-storage"] * 3
    assert caplog.messages == [
        "the layout name 'local' is deprecated and will be removed in the next release; use 'local-tiered-storage'"
    ]


def test_a_plugin_that_is_not_a_layout_is_refused(monkeypatch):
    monkeypatch.setattr(layouts, "load_named", lambda *_: lambda options: object())
    with pytest.raises(ConfigurationError, match="plugin other does not implement"):
        layout_named("other")


def test_an_unknown_name_is_an_error_that_lists_the_layouts():
    with pytest.raises(ConfigurationError, match="'other'; known layouts: aiven, local-tiered-storage"):
        layout_named("other")


def test_options_reach_the_layout_that_has_them(tmp_path):
    (tmp_path / "key.der").write_bytes(private_key())
    layout = layout_named("aiven", LayoutOptions("p/", {"key1": str(tmp_path / "key.der")}))
    assert layout.object_key(metadata(0, 9), ObjectKind.LOG).startswith("p/orders-")
    with pytest.raises(ConfigurationError, match="'key1' cannot be read"):
        layout_named("aiven", LayoutOptions("", {"key1": str(tmp_path / "other")}))


@pytest.mark.parametrize("options", [LayoutOptions("p/"), LayoutOptions("", {"key1": "file"})])
def test_unknown_options_of_a_layout_are_refused(options):
    with pytest.raises(ConfigurationError, match="local-tiered-storage supports no key prefix"):
        layout_named("local-tiered-storage", options)
    assert layout_named("local-tiered-storage", LayoutOptions()).name == "local-tiered-storage"


def test_key_files_are_read_by_their_ids():
    assert encryption_key_files(["one=a.pem", "two=dir/b=c.pem"], "--key") == {"one": "a.pem", "two": "dir/b=c.pem"}


@pytest.mark.parametrize("pairs", [["one"], ["=file"], ["one="], ["one=a", "two"]])
def test_a_pair_without_id_or_file_is_refused(pairs):
    with pytest.raises(ConfigurationError, match="--key must be KEYID=PRIVATE_KEY_FILE"):
        encryption_key_files(pairs, "--key")


def test_a_key_id_given_twice_is_refused():
    with pytest.raises(ConfigurationError, match="--key: one is given twice"):
        encryption_key_files(["one=a", "one=b"], "--key")
