"""The modules that an import loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kafka_remote_client

_ROOMS = ("consumer", "fetch", "location", "protocol", "remote_log", "shim", "cli", "metrics")
_HEAVY = ("pyarrow", "rich", "typer")


def _imported_by(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split())


def test_records_load_neither_the_client_nor_heavy_packages() -> None:
    found = _imported_by("import kafka_remote_client.records")
    assert "kafka_remote_client.records.reader" in found
    assert not {f"kafka_remote_client.{room}" for room in _ROOMS} & found
    assert not set(_HEAVY) & found


def test_the_package_alone_loads_nothing_of_others() -> None:
    found = _imported_by("import kafka_remote_client") - _imported_by("pass")
    assert {name for name in found if name.partition(".")[0] not in sys.stdlib_module_names} == {
        "kafka_remote_client",
        "kafka_remote_client.lazy_exports",
    }


def test_the_errors_come_with_their_first_use() -> None:
    assert "kafka_remote_client.errors" in _imported_by("import kafka_remote_client as k; k.errors.DirectFetchError")
    assert "kafka_remote_client.errors" in _imported_by("from kafka_remote_client import errors")


@pytest.mark.parametrize("name", kafka_remote_client.__all__)
def test_each_public_name_exists_and_is_listed(name: str) -> None:
    assert getattr(kafka_remote_client, name) is getattr(kafka_remote_client, name)
    assert name in dir(kafka_remote_client)


def test_the_first_use_of_a_name_imports_its_package() -> None:
    assert "kafka_remote_client.consumer" in _imported_by("import kafka_remote_client as k; k.Consumer")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Producer'"):
        _ = kafka_remote_client.Producer
