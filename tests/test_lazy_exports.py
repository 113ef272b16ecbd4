from __future__ import annotations

import json
from typing import Any

import pytest

from kafka_remote_client.lazy_exports import lazy_exports


def package() -> dict[str, Any]:
    return {"__name__": "some.package", "__all__": ["loads", "own"], "own": 1}


def test_a_name_is_imported_once_from_its_module():
    namespace = package()
    get, _ = lazy_exports(namespace, {"loads": "json"})
    assert "loads" not in namespace
    assert get("loads") is json.loads
    assert namespace["loads"] is json.loads


def test_a_module_of_the_package_is_the_value_itself():
    namespace = {"__name__": "json", "__all__": ["decoder"]}
    get, _ = lazy_exports(namespace, {"decoder": "json.decoder"})
    assert get("decoder") is namespace["decoder"] is json.decoder


def test_an_unknown_name_is_an_attribute_error():
    get, _ = lazy_exports(package(), {"loads": "json"})
    with pytest.raises(AttributeError, match=r"module 'some\.package' has no attribute 'dumps'"):
        get("dumps")


def test_dir_lists_names_that_are_not_imported_yet():
    _, names = lazy_exports(package(), {"loads": "json"})
    assert names() == ["__all__", "__name__", "loads", "own"]
