"""Header names that no producer of ours writes: the plain consumer and ours read the same bytes alike."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client import Consumer, open_tier
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.faults.streams import Segment, write_stream
from tests.support.batches import Rec, batch
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, from_store, plain_settings, small_cluster

pytestmark = pytest.mark.embedded

NAMES = {
    b"a\0b": "a",
    b"\0": "",
    b"": "",
    b"a\0\xff": "a",
    b"\xc3\xbc\0": "\u00fc",
    b"\0a\0": "",
    b"a" * 300: "a" * 300,
}
"""A name's bytes, and what both consumers read."""
TOPIC, NO_UTF8 = "names", "no-utf8"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        for topic, names in ((TOPIC, [*NAMES]), (NO_UTF8, [b"a\xff"])):
            raw = [batch(n, [Rec(headers=[(name, b"1"), (b"b", None)])]) for n, name in enumerate(names)]
            write_stream(made, topic, [Segment(tuple(raw))])
        yield made


def polled(consumer: confluent_kafka.Consumer, topic: str, count: int) -> list[Message]:
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = []
    while len(messages) < count:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert message.error() is None
        messages.append(message)
    return messages


def test_names_end_at_their_first_nul_from_both_tiers(cluster: EmbeddedCluster) -> None:
    expected = [[(read, b"1"), ("b", None)] for read in NAMES.values()]
    with confluent_kafka.Consumer(plain_settings(cluster)) as plain:
        assert [message.headers() for message in polled(plain, TOPIC, len(NAMES))] == expected
    with Consumer(direct_settings(cluster)) as consumer:
        assert [message.headers() for message in polled(consumer, TOPIC, len(NAMES))] == expected
        assert from_store(consumer) >= len(NAMES)


def test_blocks_arrow_and_rows_keep_the_whole_name(cluster: EmbeddedCluster) -> None:
    blocks = []
    with open_tier(cluster.directory.as_uri()) as tier:
        for item in tier.read(TOPIC, 0).blocks(PATIENCE_SECONDS):
            blocks.append(item)
    whole = [name.decode("utf-8", "replace") for name in NAMES]
    (block, _) = blocks
    assert [block.headers(n)[0][0] for n in range(len(block))] == whole
    assert [row[-1][0][0] for row in block.rows()] == whole
    table = block.to_arrow(TOPIC, 0)
    keys = table.column("headers").values.field("key").to_pylist()
    assert keys[::2] == whole
    assert [message.headers()[0][0] for message in block.messages(TOPIC, 0)] == list(NAMES.values())


def test_names_that_are_not_utf8_are_read_only_by_this_client(cluster: EmbeddedCluster) -> None:
    """confluent_kafka's ``headers()`` raises SystemError, which is a defect of the binding and is not repeated."""
    with confluent_kafka.Consumer(plain_settings(cluster)) as plain:
        (message,) = polled(plain, NO_UTF8, 1)
        with pytest.raises(SystemError):
            message.headers()
    with Consumer(direct_settings(cluster)) as consumer:
        (message,) = polled(consumer, NO_UTF8, 1)
        assert message.headers() == [("a\ufffd", b"1"), ("b", None)]
        assert from_store(consumer) == 1
