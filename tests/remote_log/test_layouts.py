from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.layouts import LAYOUTS, layout_named


def test_every_layout_is_found_under_its_own_name():
    assert {name: layout_named(name).name for name in LAYOUTS} == {name: name for name in LAYOUTS}


def test_raises_for_another_name_and_says_which_there_are():
    with pytest.raises(ConfigurationError, match="'other'; there are: aiven, local-tiered-storage"):
        layout_named("other")
