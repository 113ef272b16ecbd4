"""A client that follows ``__remote_log_metadata`` of the embedded cluster learns its tier."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kafka_remote_client.remote_log.events import RemoteLogMetadata
from kafka_remote_client.verify.metadata_topic import MetadataTopic
from tests.support.embedded_topics import fill_topic, small_cluster, tiers

pytestmark = pytest.mark.embedded


def test_metadata_topic_and_observers_get_each_event(tmp_path: Path) -> None:
    events: list[RemoteLogMetadata] = []
    with small_cluster(tmp_path, metadata_topic=True, observe=events.append) as cluster:
        fill_topic(cluster, "orders", 300, (0, 1))
        with closing(MetadataTopic({"bootstrap.servers": cluster.bootstrap_servers})) as topic:
            topic.read(60)
            partitions = topic.partitions()
            assert [(tip.topic, tip.partition) for tip in partitions] == [("orders", 0), ("orders", 1)]
            for tip in partitions:
                cache = topic.cache(tip)
                assert cache is not None
                assert topic.ready(tip)
                known = cache.list_all_remote_log_segments()
                assert max(one.end_offset for one in known) == tiers(cluster, "orders", tip.partition).latest_tiered
                assert len(known) == sum(event.topic_id_partition == tip for event in events) // 2  # begun and finished
