from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.layouts import LAYOUTS, LayoutOptions, layout_named
from tests.support.aiven import private_key
from tests.support.tier import metadata


def test_every_layout_is_found_under_its_own_name():
    assert {name: layout_named(name).name for name in LAYOUTS} == {name: name for name in LAYOUTS}


def test_raises_for_another_name_and_says_which_there_are():
    with pytest.raises(ConfigurationError, match="'other'; there are: aiven, local-tiered-storage"):
        layout_named("other")


def test_options_reach_the_layout_that_has_them(tmp_path):
    (tmp_path / "key.der").write_bytes(private_key())
    layout = layout_named("aiven", LayoutOptions("p/", {"key1": str(tmp_path / "key.der")}))
    assert layout.object_key(metadata(0, 9), ObjectKind.LOG).startswith("p/orders-")
    with pytest.raises(ConfigurationError, match="'key1' cannot be read"):
        layout_named("aiven", LayoutOptions("", {"key1": str(tmp_path / "other")}))


@pytest.mark.parametrize("options", [LayoutOptions("p/"), LayoutOptions("", {"key1": "file"})])
def test_options_that_a_layout_does_not_have_are_refused(options):
    with pytest.raises(ConfigurationError, match="local-tiered-storage has no key prefix"):
        layout_named("local-tiered-storage", options)
    assert layout_named("local-tiered-storage", LayoutOptions()).name == "local-tiered-storage"
