from __future__ import annotations

import pytest

from kafka_remote_client.errors import DataKeyError, ObjectNotFoundError, RemoteLogMetadataError
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.manifest import MAX_MANIFEST_BYTES
from kafka_remote_client.remote_log.aiven.manifest_cache import ManifestCache
from tests.support.aiven import DATA_KEY, AivenWriter, encrypt, key_ring
from tests.support.tier import MemoryStore, Tier, batch


@pytest.fixture
def tier():
    return Tier()


def laid_out(tier, writer):
    """Returns a store with one segment, and its log's key."""
    segment = tier.add([batch(0, 5), batch(5, 5)], number=1, indexed=[1])
    store = MemoryStore()
    store.objects = writer.objects(tier.store, segment)
    return store, next(key for key in store.objects if key.endswith(".log"))


def test_a_manifest_is_read_and_a_key_unwrapped_once(tier):
    store, key = laid_out(tier, AivenWriter(encrypted=True))
    cache = ManifestCache(key_ring())
    first, second = (cache.stored_log(store, key) for _ in range(2))
    assert store.reads(".rsm-manifest") == 1
    assert store.calls[0][3] == MAX_MANIFEST_BYTES + 1
    assert first.data_key is second.data_key
    assert first.data_key == DATA_KEY
    assert str(DATA_KEY) not in repr(first)
    assert first.cipher().decrypt(encrypt(b"x")) == b"x"


def test_a_manifest_is_read_without_any_key(tier):
    store, key = laid_out(tier, AivenWriter(encrypted=True))
    cache = ManifestCache(KeyRing())
    assert cache.manifest(store, key).encoding.encrypted
    with pytest.raises(DataKeyError, match="key1"):
        cache.stored_log(store, key)


@pytest.mark.parametrize("writer", [AivenWriter(), AivenWriter(compressed=True)], ids=str)
def test_an_unencrypted_segment_needs_no_key(tier, writer):
    store, key = laid_out(tier, writer)
    stored = ManifestCache(KeyRing()).stored_log(store, key)
    assert (stored.data_key, stored.cipher()) == (None, None)
    assert stored.table(5, 6).aad is None


def test_stores_are_cached_separately(tier):
    store, key = laid_out(tier, AivenWriter())
    cache = ManifestCache(KeyRing())
    cache.manifest(store, key)
    with pytest.raises(ObjectNotFoundError):
        cache.manifest(MemoryStore(), key)


def test_a_missing_or_damaged_manifest_is_requested_again(tier):
    store, key = laid_out(tier, AivenWriter())
    manifest = key.replace(".log", ".rsm-manifest")
    sound = store.objects.pop(manifest)
    cache = ManifestCache(KeyRing())
    with pytest.raises(ObjectNotFoundError, match=r"rsm-manifest"):
        cache.manifest(store, key)
    store.objects[manifest] = sound[:-1]
    with pytest.raises(RemoteLogMetadataError):
        cache.manifest(store, key)
    store.objects[manifest] = sound
    assert cache.manifest(store, key).encoding.is_plain


def test_the_cache_is_bounded(tier):
    store, key = laid_out(tier, AivenWriter())
    other = key.replace("00.log", "01.log").replace("00000000000000000000-", "00000000000000000001-")
    store.objects[other.replace(".log", ".rsm-manifest")] = store.objects[key.replace(".log", ".rsm-manifest")]
    cache = ManifestCache(KeyRing(), max_bytes=1)
    for asked in (key, other, key):
        cache.manifest(store, asked)
    assert store.reads(".rsm-manifest") == 3
