from __future__ import annotations

from kafka_remote_client.location.direct_location import direct_location
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from tests.support.aiven import DATA_KEY, AivenWriter, key_ring
from tests.support.questions import tier_question
from tests.support.tier import LAYOUT, TIP, MemoryStore, Tier, batch


def resolved(tier, store, layout):
    return RemoteSegmentResolver(store, layout).resolve(tier.cache, tier_question(TIP, 12, range_bytes=250))


def test_ranges_have_the_objects_key_and_never_expire():
    tier = Tier()
    tier.add([batch(n * 10, 10) for n in range(5)], number=1, indexed=[1, 2, 3])
    found = resolved(tier, tier.store, LAYOUT)
    aborted = (AbortedTransaction(1, 2),)
    location = direct_location(
        tier.store,
        LAYOUT,
        found,
        aborted=aborted,
        high_watermark=90,
        last_stable_offset=80,
        log_start_offset=3,
        throttle_time_ms=7,
    )
    assert [granted.range for granted in location] == list(found.ranges)
    assert [granted.first_offset for granted in location] == list(found.range_offsets) == [10, 20, 30]
    assert {LocationMetadata.decode(granted.custom_metadata) for granted in location} == {
        LocationMetadata(object_key=found.object_key)
    }
    assert (location.format, location.fetch_offset, location.next_offset) == ("ApacheKafkaV1", 12, 50)
    assert (location.high_watermark, location.last_stable_offset, location.log_start_offset) == (90, 80, 3)
    assert (location.aborted_transactions, location.throttle_time_ms) == (aborted, 7)
    assert location.expires_at == float("inf")
    assert not location.range_signed


def test_ranges_of_a_chunked_log_carry_their_data_key_and_chunk_table():
    tier = Tier()
    segment = tier.add([batch(n * 10, 10) for n in range(5)], number=1, indexed=[1, 2, 3])
    store, layout = MemoryStore(), AivenLayout("p/", key_ring())
    store.objects = AivenWriter("p/", 100, compressed=True, encrypted=True).objects(tier.store, segment)
    location = direct_location(store, layout, resolved(tier, store, layout), aborted=None)
    assert location.format == "AivenTieredStorageV1"
    assert location.throttle_time_ms == 0
    for granted in location:
        told = LocationMetadata.decode(granted.custom_metadata)
        assert told.data_key == DATA_KEY
        assert told.chunk_table is not None


def test_ranges_cut_at_chunks_have_the_offset_of_their_indexed_range():
    tier = Tier()
    segment = tier.add([batch(n * 10, 10) for n in range(5)], number=1, indexed=[1, 2, 3])
    store, layout = MemoryStore(), AivenLayout("p/", key_ring())
    store.objects = AivenWriter("p/", 150, compressed=True).objects(tier.store, segment)
    location = direct_location(store, layout, resolved(tier, store, layout), aborted=None)
    # The indexed ranges begin at bytes 341, 682 and 1023. A batch cut by a chunk border is also in the range where it ends.
    assert [(granted.range.start, granted.first_offset) for granted in location] == [(341, 10), (750, 20), (1050, 30)]
