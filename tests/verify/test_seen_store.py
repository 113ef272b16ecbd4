import pytest

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.verify.seen_store import SeenStore
from tests.support.tier import MemoryStore


def test_the_listing_does_not_change_and_reads_are_counted() -> None:
    store = MemoryStore()
    store.objects |= {"a/1": b"12", "a/2": b"345", "b/1": b"6", "c": b""}
    told: list[int] = []
    seen = SeenStore(store, ["b/", "a/"], told.append)
    store.objects["a/3"] = b"late"
    del store.objects["b/1"]
    assert [info.key for info in seen.objects] == ["a/1", "a/2", "b/1"]
    assert [(info.key, info.size) for info in seen.list("a/")] == [("a/1", 2), ("a/2", 3)]
    assert [info.key for info in seen.list("")] == ["a/1", "a/2", "b/1"]
    assert list(seen.list("x")) == []
    assert seen.get("a/1") + seen.get_range("a/2", 1, 9) == b"1245"
    assert seen.size("a/3") == 4
    with pytest.raises(ObjectNotFoundError):
        seen.get("b/1")
    assert (seen.bytes_read, told) == (4, [2, 2])
    seen.close()
    assert not store.closed
