"""The modules that an import loads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kafka_remote_client
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, fill_topic, small_cluster

_ROOMS = ("consumer", "fetch", "location", "protocol", "remote_log", "shim", "cli", "metrics")
_HEAVY = ("pyarrow", "rich", "typer")
_LATER = frozenset(
    {
        *(
            "asn1crypto",
            "boto3",
            "botocore",
            "cramjam",
            "crc32c",
            "cryptography",
            "pyarrow",
            "requests",
            "rich",
            "scramp",
            "typer",
        ),
        *("argparse", "concurrent.futures.thread", "csv", "ctypes", "decimal", "difflib", "email", "fractions", "gettext"),
        *("hashlib", "hmac", "http", "importlib.metadata", "json", "queue", "secrets", "statistics", "tempfile", "zipfile"),
        *("urllib.error", "urllib.request"),
    }
)
"""What the class Consumer does not need before it is used, unless confluent_kafka loads it."""
_OF_OTHER_SOURCES = frozenset(
    {
        *(f"kafka_remote_client.location.{name}" for name in ("listed_tier", "listing", "metadata_topic", "tier_source")),
        *(
            f"kafka_remote_client.remote_log.{name}"
            for name in ("follower", "index_cache", "layouts", "resolver", "tier_listing")
        ),
        "kafka_remote_client.fetch.tier_sources",
    }
)
_OF_SASL = frozenset({"asn1crypto", "kafka_remote_client.location.sasl_mechanisms", "scramp", "urllib.request"})
_OF_THE_DISK_CACHE = frozenset({"kafka_remote_client.fetch.caching_fetcher", "kafka_remote_client.fetch.disk_cache"})
_OF_OTHER_FETCHERS = frozenset({"boto3", "botocore", "obstore", "requests", "urllib3"})
_OF_PURE_PYTHON = frozenset({"argparse", "crc32c"})
_OF_ARROW = frozenset({"pyarrow", "pandas", "numpy"})
_NAMED = "from kafka_remote_client import Consumer"
_PLAIN = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
_DIRECT = {
    "fetch.remote.enabled": True,
    "remote.storage.fetcher.class": "presigned",
    "remote.storage.fetcher.allowed.hosts": "127.0.0.1:1",
}
_IDENTITY = {"sasl.username": "u", "sasl.password": "p"}
_READER = f"""
import json, sys
from confluent_kafka import TopicPartition
from kafka_remote_client import Consumer

with Consumer(json.loads(sys.argv[1])) as consumer:
    built = set(sys.modules)
    consumer.assign([TopicPartition("orders", 0, 0)])
    got = consumer.consume(100, {PATIENCE_SECONDS})
    print(json.dumps([consumer.metrics()["remote-fetch-records-total"], len(got), sorted(set(sys.modules) - built)]))
"""


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


def test_the_class_consumer_loads_nothing_but_confluent_kafka() -> None:
    found = _imported_by(_NAMED) - _imported_by("import confluent_kafka")
    assert found == {
        "kafka_remote_client",
        "kafka_remote_client.consumer",
        "kafka_remote_client.consumer.consumer",
        "kafka_remote_client.lazy_exports",
    }


def test_a_consumer_without_our_settings_loads_no_more() -> None:
    assert _imported_by(f"{_NAMED}; Consumer({_PLAIN}).close()") == _imported_by(_NAMED)


def test_a_consumer_with_direct_fetch_off_loads_only_the_settings() -> None:
    found = _imported_by(f"{_NAMED}; Consumer({_PLAIN | {'fetch.remote.enabled': False}}).close()") - _imported_by(_NAMED)
    assert {name.partition(".")[0] for name in found} - sys.stdlib_module_names == {"attr", "attrs", "kafka_remote_client"}
    assert found & _LATER == set()
    assert {name for name in found if name.startswith("kafka_remote_client.")} == {
        "kafka_remote_client.arguments",
        "kafka_remote_client.config",
        "kafka_remote_client.errors",
        "kafka_remote_client.settings",
    }


@pytest.mark.embedded
def test_a_built_consumer_reads_the_store_without_further_imports(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        fill_topic(cluster, "orders", 200)
        command = [sys.executable, "-c", _READER, json.dumps(direct_settings(cluster))]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    from_store, taken, imported = json.loads(told)
    assert from_store > 0
    assert taken == 100
    assert imported == []


def test_a_built_consumer_loads_only_what_its_settings_need() -> None:
    found = _imported_by(f"{_NAMED}; Consumer({_PLAIN | _DIRECT}).close()")
    assert "kafka_remote_client.fetch.engine" in found
    assert "kafka_remote_fetchers.presigned" in found
    unneeded = _OF_OTHER_SOURCES | _OF_SASL | _OF_THE_DISK_CACHE | _OF_OTHER_FETCHERS | _OF_PURE_PYTHON | _OF_ARROW
    assert sorted(found & unneeded) == []


@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN", **_IDENTITY}, "_OF_SASL"),
        ({"fetch.remote.cache.directory": "{directory}/cache"}, "_OF_THE_DISK_CACHE"),
        ({"fetch.remote.location.source": "listing", "remote.storage.store.url": "file://{directory}"}, "_OF_OTHER_SOURCES"),
    ],
)
def test_a_setting_loads_its_part_at_construction(tmp_path: Path, settings: dict[str, str], needed: str) -> None:
    given = {name: value.format(directory=tmp_path) for name, value in settings.items()}
    found = _imported_by(f"{_NAMED}; Consumer({_PLAIN | _DIRECT | given}).close()")
    assert sorted(globals()[needed] - found) == []


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
