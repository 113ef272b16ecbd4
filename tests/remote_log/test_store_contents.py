"""The text that describes a store's contents if no segment is found."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.remote_log.store_contents import describe_contents, naming_options, no_segments, nothing_found

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FILE = f"00000000000000000042-{ID}"


def local(prefix: str = "kafka-tiered-storage/", topic: str = "orders", suffix: str = "log") -> str:
    return f"{prefix}{topic}-0-{ID}/{FILE}.{suffix}"


def aiven(prefix: str = "", topic: str = "orders", suffix: str = "rsm-manifest") -> str:
    return f"{prefix}{topic}-{ID}/0/{FILE}.{suffix}"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([], "the store has no objects there"),
        (["a/b.parquet", "c"], "the store has 2 objects, none of them part of a segment, for example a/b.parquet"),
        (["x"] * 10_000, "the store has at least 10000 objects, none of them part of a segment, for example x"),
        ([aiven()], "the store has Aiven manifests at its root (--layout aiven) of topic orders"),
        (
            [aiven("some-prefix/"), aiven("some-prefix/", "users", "log"), "README"],
            "the store has Aiven manifests below some-prefix/ (--layout aiven --key-prefix some-prefix/) "
            "of topics orders, users",
        ),
        (
            [local(), local(suffix="leader_epoch_checkpoint")],
            "the store has LocalTieredStorage segments below kafka-tiered-storage/ (--layout local-tiered-storage) "
            "of topic orders",
        ),
        (
            [local("prod/kafka-tiered-storage/")],
            "the store has LocalTieredStorage segments below prod/kafka-tiered-storage/ "
            "(--layout local-tiered-storage, --store with prod/ at its end) of topic orders",
        ),
        (
            [local("")],
            "the store has LocalTieredStorage segments at its root (expected in a directory kafka-tiered-storage) "
            "of topic orders",
        ),
        (
            [aiven(topic=f"t{number}") for number in range(7)],
            "the store has Aiven manifests at its root (--layout aiven) of topics t0, t1, t2, t3, t4 and 2 more",
        ),
    ],
)
def test_the_text_names_each_prefix_its_layout_and_topics(keys: list[str], said: str) -> None:
    assert describe_contents(keys) == said


def test_more_than_three_places_are_counted() -> None:
    assert describe_contents(aiven(f"p{number}/") for number in range(5)).endswith(", and 2 other places")


def test_a_bounded_number_of_objects_is_listed() -> None:
    listed = []

    class Store:
        def list(self, prefix: str) -> Iterator[ObjectInfo]:
            assert prefix == ""
            while True:
                listed.append(prefix)
                yield ObjectInfo("x", 1)

    store: Any = Store()
    assert str(nothing_found("found nothing", store)).startswith("found nothing; the store has at least 10000 objects")
    assert len(listed) <= 10_001


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            aiven("some-prefix/"),
            "Aiven manifests below some-prefix/ (remote.storage.store.layout=aiven, "
            "remote.storage.store.key.prefix=some-prefix/) of topic orders",
        ),
        (
            local("prod/kafka-tiered-storage/"),
            "LocalTieredStorage segments below prod/kafka-tiered-storage/ (remote.storage.store.layout=local-tiered-storage, "
            "remote.storage.store.url with prod/ at its end) of topic orders",
        ),
    ],
)
def test_a_client_error_names_the_settings_to_change(key: str, said: str) -> None:
    store: Any = SimpleNamespace(list=lambda _: iter([ObjectInfo(key, 1)]))
    with pytest.raises(ConfigurationError) as caught, naming_options():
        raise no_segments("users", store)
    assert "remote.storage" not in str(caught.value)
    assert str(caught.value) == str(nothing_found("found no segments of topic users", store))
    assert str(no_segments("users", store)) == f"found no segments of topic users; the store has {said}"
