from __future__ import annotations

import pytest

from kafka_remote_client.model import IsolationLevel, NotRemote
from kafka_remote_client.remote_log.followed_tier import FollowedTier
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from tests.support.questions import tier_question
from tests.support.tier import LAYOUT, TIP, Tier, batch

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


class Followed:
    def __init__(self):
        self.ready = True
        self.tier = Tier()
        self.tier.add([batch(0, 10), batch(10, 10), batch(20, 10)], number=1)
        self.store = RemoteLogMetadataStore()
        self.followed = FollowedTier(self.store, RemoteSegmentResolver(self.tier.store, LAYOUT), lambda tip: self.ready)

    def resolve(self, offset, log_start=0, end=100):
        return self.followed.resolve(
            tier_question(TIP, offset, isolation_level=UNCOMMITTED, log_start_offset=log_start, end_offset=end)
        )


@pytest.fixture
def made():
    return Followed()


def test_resolved_offsets_are_between_the_logs_start_and_end(made):
    made.store._caches[TIP] = made.tier.cache
    found = made.resolve(15, log_start=12, end=20)
    assert (found.span.start, found.next_offset) == (len(batch(0, 10)), 20)
    assert made.resolve(15).span.start == 0
    assert made.resolve(30).reason == "local"


def test_a_partition_without_events_has_nothing_tiered(made):
    assert made.resolve(0) == NotRemote("nothing-tiered")


def test_not_ready_until_all_events_are_read(made):
    made.ready = False
    assert made.resolve(0) == NotRemote("metadata-not-ready")
    made.store._caches[TIP] = made.tier.cache
    assert made.resolve(0) == NotRemote("metadata-not-ready")


def test_a_cache_from_before_a_reread_is_not_used(made):
    made.store._caches[TIP] = made.tier.cache
    answers = iter([True, False])
    made.followed._ready = lambda tip: next(answers)
    assert made.resolve(0) == NotRemote("metadata-not-ready")


def test_segments_are_listed_once_all_events_are_read(made):
    assert made.followed.segments(TIP) == []
    made.store._caches[TIP] = made.tier.cache
    assert [(segment.start, segment.end) for segment in made.followed.segments(TIP)] == [(0, 30)]
    made.ready = False
    assert made.followed.segments(TIP) is None
