from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.model import RemoteLogSegmentId, TopicIdPartition, uuid_from_text
from kafka_remote_client.remote_log.aiven.keys import INDEXES, LOG, MANIFEST, main_path, parse_key, with_suffix

TOPIC_ID, SEGMENT = "MWJ6FHTfRYy67jzwZdeqSQ", "tqimKeZwStOEOwRzT3L5oQ"
MAIN = f"topic-{TOPIC_ID}/7/00000000000000001234-{SEGMENT}"
SEGMENT_ID = RemoteLogSegmentId(TopicIdPartition(uuid_from_text(TOPIC_ID), "topic", 7), uuid_from_text(SEGMENT))


def test_names_equal_the_plugins():
    assert main_path(SEGMENT_ID, 1234) == MAIN


@pytest.mark.parametrize("prefix", ["", "someprefix/", "no-slash", "a/b/"])
@pytest.mark.parametrize("suffix", [LOG, INDEXES, MANIFEST])
def test_a_name_gives_its_segment(prefix, suffix):
    parsed = parse_key(f"{prefix}{MAIN}.{suffix}", prefix)
    assert parsed is not None
    assert (parsed.remote_log_segment_id, parsed.start_offset, parsed.suffix) == (SEGMENT_ID, 1234, suffix)


@pytest.mark.parametrize(
    "key",
    [
        "",
        f"{MAIN}",
        f"{MAIN}.txt",
        f"{MAIN}.log.bak",
        f"x/{MAIN}.log",
        f"topic-{TOPIC_ID}/07/00000000000000001234-{SEGMENT}.log",
        f"topic-{TOPIC_ID}/-7/00000000000000001234-{SEGMENT}.log",
        f"topic-{TOPIC_ID}/2147483648/00000000000000001234-{SEGMENT}.log",
        f"topic-{TOPIC_ID}/7/0000000000000001234-{SEGMENT}.log",
        f"topic-{TOPIC_ID}/7/99999999999999999999-{SEGMENT}.log",
        f"topic-{TOPIC_ID}/7/00000000000000001234-{SEGMENT[1:]}.log",
        f"topic-{TOPIC_ID[1:]}/7/00000000000000001234-{SEGMENT}.log",
        f"-{TOPIC_ID}/7/00000000000000001234-{SEGMENT}.log",
        f"topic-7-{TOPIC_ID}/00000000000000001234-{SEGMENT}.log",
        f"topic-{TOPIC_ID}/metadata/{SEGMENT}.puffin",
    ],
)
def test_other_names_belong_to_no_segment(key):
    assert parse_key(key, "") is None


def test_objects_outside_the_prefix_belong_to_no_segment():
    assert parse_key(f"other/{MAIN}.log", "some/") is None


@settings(deadline=None)
@given(
    st.text("ab.-_09", min_size=1, max_size=30),
    st.uuids(),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.uuids(),
    st.sampled_from(["", "p", "p/", "p-/_."]),
)
def test_names_are_parsed_for_any_topic_and_id(topic, topic_id, partition, start, segment, prefix):
    segment_id = RemoteLogSegmentId(TopicIdPartition(topic_id, topic, partition), segment)
    parsed = parse_key(f"{prefix}{main_path(segment_id, start)}.{LOG}", prefix)
    assert parsed is not None
    assert (parsed.remote_log_segment_id, parsed.start_offset) == (segment_id, start)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_a_key_or_none(text):
    parse_key(text, "")


def test_a_logs_key_gives_those_of_its_other_objects():
    assert with_suffix("p/a.b/c.log", MANIFEST) == "p/a.b/c.rsm-manifest"
    for key in ("log", "a.indexes", ""):
        with pytest.raises(ValueError, match="not the key of a log object"):
            with_suffix(key, MANIFEST)


def test_ids_with_dashes_at_their_ends_are_distinguished():
    odd = UUID(int=(0b111110 << 122) | 0b1111)
    segment_id = RemoteLogSegmentId(TopicIdPartition(odd, "a-", 0), odd)
    assert "-" in main_path(segment_id, 0).split("/")[0][2:4]
    parsed = parse_key(f"{main_path(segment_id, 0)}.log", "")
    assert parsed is not None
    assert parsed.remote_log_segment_id == segment_id
