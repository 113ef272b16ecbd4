import pytest

from kafka_remote_client.errors import ConfigurationError, LocationError
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.remote_log.packed_segment import packed_event
from kafka_remote_client.verify.known_metadata import DeletionTrackingStore, MetadataTopicReader
from tests.support.ports import free_ports
from tests.support.tier import TIP, metadata, update


@pytest.mark.parametrize("packed", [False, True])
def test_deleted_segments_are_remembered(packed: bool) -> None:
    store, segment = DeletionTrackingStore(), metadata(0, 9)
    store.apply(packed_event(segment) if packed else segment)
    for state in list(RemoteLogSegmentState)[1:]:
        assert not store.deleted(segment.remote_log_segment_id)
        event = update(segment, state)
        assert store.apply(packed_event(event) if packed else event)
    assert store.deleted(segment.remote_log_segment_id)
    cache = store.cache(TIP)
    assert cache is not None
    assert cache.list_all_remote_log_segments() == []


def test_a_setting_that_librdkafka_refuses_is_a_configuration_error() -> None:
    topic = MetadataTopicReader({"bootstrap.servers": "127.0.0.1:1", "no.such.setting": "1"})
    with pytest.raises(ConfigurationError, match=r"no\.such\.setting"):
        topic.read(1)
    topic.close()


def test_a_broker_without_an_answer_ends_the_wait() -> None:
    (port,) = free_ports(1)
    topic = MetadataTopicReader({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": "0"})
    try:
        with pytest.raises(LocationError, match="timed out after"):
            topic.read(0.1)
        assert not topic.ready(TIP)
    finally:
        topic.close()
