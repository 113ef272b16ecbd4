from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.golden import AIVEN_MODES, golden_aiven, read_jsonl

GOLDEN = {
    "020002c801020404666f6f": AivenCustomMetadata(remote_size=100, object_key="foo"),
    "01000492828001": AivenCustomMetadata(remote_size=1048713),
    "01 01 03 03 6162": AivenCustomMetadata(object_prefix="ab"),
    "00": AivenCustomMetadata(),
}


@pytest.mark.parametrize(("text", "value"), list(GOLDEN.items()))
def test_golden_bytes_are_written_and_read(text, value):
    assert value.encode() == bytes.fromhex(text)
    assert AivenCustomMetadata.decode(bytes.fromhex(text)) == value


@pytest.mark.parametrize("nothing", [None, b""])
def test_no_bytes_are_no_fields(nothing):
    assert AivenCustomMetadata.decode(nothing) == AivenCustomMetadata()


def test_unknown_tags_are_skipped():
    assert AivenCustomMetadata.decode(b"\x02\x02\x02\x02k\x09\x01\x00").object_key == "k"


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_the_plugins_metadata_names_the_objects_in_the_store(mode):
    root = golden_aiven(mode)
    serde = RemoteLogMetadataSerde()
    events = [serde.deserialize(bytes.fromhex(line["value"])) for line in read_jsonl(root / "remote_log_metadata.jsonl.gz")]
    customs = [e.custom_metadata for e in events if isinstance(e, RemoteLogSegmentMetadataUpdate) and e.custom_metadata]
    assert len(customs) >= 40
    known = 0
    for raw in customs:
        told = AivenCustomMetadata.decode(raw)
        assert told.encode() == raw
        assert told.object_prefix == ("some-prefix/" if mode == "aiven-zstd-aes" else "")
        objects = [
            root / "remote" / f"{told.object_prefix}{told.object_key}.{suffix}" for suffix in ("log", "indexes", "rsm-manifest")
        ]
        if objects[0].exists():
            known += 1
            assert told.remote_size == sum(path.stat().st_size for path in objects)
    assert known >= 30


@pytest.mark.parametrize(
    "text",
    [
        "01",  # a field is missing
        "00 00",  # a byte after the end
        "01 00 00",  # a size without bytes
        "01 00 01 80",  # a size that does not end
        "01 00 02 02 00",  # a size that ends early
        "01 00 0b 8080808080808080808001",  # a size of eleven bytes
        "01 02 01 00",  # a null string
        "01 02 02 05 61",  # a truncated string
        "01 02 03 02 61 00",  # a byte after a string
        "01 02 02 02 ff",  # not UTF-8
        "02 02 02 02 61 01 02 02 61",  # tags out of order
    ],
)
def test_other_bytes_are_refused(text):
    with pytest.raises(RemoteLogMetadataError):
        AivenCustomMetadata.decode(bytes.fromhex(text))


@settings(deadline=None)
@given(
    st.builds(
        AivenCustomMetadata,
        remote_size=st.none() | st.integers(-(2**63), 2**63 - 1),
        object_prefix=st.none() | st.text(),
        object_key=st.none() | st.text(),
    )
)
def test_written_fields_are_read_back(value):
    assert AivenCustomMetadata.decode(value.encode()) == value


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_give_fields_or_a_typed_error(data):
    try:
        AivenCustomMetadata.decode(data)
    except RemoteLogMetadataError:
        return
