"""What is said of a store in which no segment was found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.remote_log.store_contents import describe_contents, nothing_found

ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FILE = f"00000000000000000042-{ID}"


def local(prefix: str = "kafka-tiered-storage/", topic: str = "orders", suffix: str = "log") -> str:
    return f"{prefix}{topic}-0-{ID}/{FILE}.{suffix}"


def aiven(prefix: str = "", topic: str = "orders", suffix: str = "rsm-manifest") -> str:
    return f"{prefix}{topic}-{ID}/0/{FILE}.{suffix}"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([], "the store holds no objects there"),
        (["a/b.parquet", "c"], "the store holds 2 objects and none is part of a segment, such as a/b.parquet"),
        (["x"] * 10_000, "the store holds at least 10000 objects and none is part of a segment, such as x"),
        ([aiven()], "the store holds Aiven manifests at its root (--layout aiven) of topic orders"),
        (
            [aiven("some-prefix/"), aiven("some-prefix/", "users", "log"), "README"],
            "the store holds Aiven manifests below some-prefix/ (--layout aiven --key-prefix some-prefix/) "
            "of topics orders, users",
        ),
        (
            [local(), local(suffix="leader_epoch_checkpoint")],
            "the store holds LocalTieredStorage segments below kafka-tiered-storage/ (--layout local-tiered-storage) "
            "of topic orders",
        ),
        (
            [local("prod/kafka-tiered-storage/")],
            "the store holds LocalTieredStorage segments below prod/kafka-tiered-storage/ "
            "(--layout local-tiered-storage, --store with prod/ at its end) of topic orders",
        ),
        (
            [local("")],
            "the store holds LocalTieredStorage segments at its root (expected in a directory kafka-tiered-storage) "
            "of topic orders",
        ),
        (
            [aiven(topic=f"t{number}") for number in range(7)],
            "the store holds Aiven manifests at its root (--layout aiven) of topics t0, t1, t2, t3, t4 and 2 more",
        ),
    ],
)
def test_says_what_lies_where(keys: list[str], said: str) -> None:
    assert describe_contents(keys) == said


def test_many_places_are_counted() -> None:
    assert describe_contents(aiven(f"p{number}/") for number in range(5)).endswith(", and 2 other places")


def test_looks_at_a_bounded_number_of_objects() -> None:
    listed = []

    class Store:
        def list(self, prefix: str) -> Iterator[ObjectInfo]:
            assert prefix == ""
            while True:
                listed.append(prefix)
                yield ObjectInfo("x", 1)

    store: Any = Store()
    assert str(nothing_found("found nothing", store)).startswith("found nothing; the store holds at least 10000 objects")
    assert len(listed) <= 10_001
