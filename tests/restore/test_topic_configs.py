import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.restore.topic_configs import deletion_by_retention, is_compacted, parse_topic_configs

DAY = 86_400_000
NOW = 100 * DAY


def test_reads_json_and_toml_alike() -> None:
    expected = {"orders": {"retention.ms": "-1", "remote.storage.enable": "true", "min.cleanable.dirty.ratio": "0.5"}}
    as_json = '{"orders": {"retention.ms": -1, "remote.storage.enable": true, "min.cleanable.dirty.ratio": 0.5}}'
    as_toml = '[orders]\n"retention.ms" = -1\n"remote.storage.enable" = true\n"min.cleanable.dirty.ratio" = "0.5"\n'
    assert parse_topic_configs(as_json, as_json=True, where="f") == expected
    assert parse_topic_configs(as_toml, as_json=False, where="f") == expected


def test_writes_false_as_kafka_does() -> None:
    text = '{"t": {"preallocate": false}}'
    assert parse_topic_configs(text, as_json=True, where="f") == {"t": {"preallocate": "false"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "f is neither TOML nor JSON"),
        ("[]", "f must have a table of configs for each topic"),
        ('{"t": 1}', "f must have a table of configs for each topic"),
        ('{"t": {"a": null}}', "f: t.a must be a text, a number or a boolean"),
    ],
)
def test_refuses_other_files(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_topic_configs(text, as_json=True, where="f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[orders]\nretention.ms = -1",
            r'f: orders\.retention is a table: quote names that have a dot, such as "retention\.ms"',
        ),
        ("[my.orders]\nsegment = 1", r"f: my\.orders is a table: quote names that have a dot"),
    ],
)
def test_tells_toml_users_to_quote_names_with_dots(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_topic_configs(text, as_json=False, where="f")


@pytest.mark.parametrize(
    ("configs", "segments", "said"),
    [
        ({}, [(NOW - 8 * DAY, 10)], "retention.ms 604800000 (Kafka's default) deletes segments that are 691200000 ms old"),
        ({"retention.ms": "1000"}, [(NOW - 1001, 10)], "retention.ms 1000 deletes segments that are 1001 ms old"),
        ({"retention.ms": "1000"}, [(NOW - 1000, 10)], None),
        ({"retention.ms": "-1"}, [(0, 10)], None),
        ({"retention.ms": "0"}, [(NOW - 1, 10)], "retention.ms 0 deletes"),
        ({}, [(-1, 10)], None),
        ({}, [(NOW, 10), (0, 10)], None),
        ({}, [], None),
        ({"retention.bytes": "10"}, [(NOW, 10), (NOW, 10)], "retention.bytes 10 deletes a part of 20 bytes"),
        ({"retention.bytes": "11"}, [(NOW, 10), (NOW, 10)], None),
        ({"cleanup.policy": "compact"}, [(0, 10)], None),
        ({"cleanup.policy": "compact, delete"}, [(0, 10)], "retention.ms"),
    ],
)
def test_says_what_retention_would_delete(configs: dict[str, str], segments: list[tuple[int, int]], said: str | None) -> None:
    found = deletion_by_retention(configs, segments, NOW)
    assert found is None if said is None else found is not None and said in found


def test_names_all_configs_that_kafka_does_not_accept() -> None:
    text = '{"t": {"retention.ms": "week", "retention.byte": 5}, "u": {"preallocate": 1}}'
    with pytest.raises(ConfigurationError) as raised:
        parse_topic_configs(text, as_json=True, where="f")
    assert str(raised.value) == (
        "f: t: retention.ms=week must be a whole number;"
        " t: retention.byte is no config of a topic; did you mean retention.bytes?;"
        " u: preallocate=1 must be true or false"
    )


def test_knows_compacted_topics() -> None:
    assert [is_compacted({"cleanup.policy": p}) for p in ("delete", "compact", "compact,delete")] == [False, True, True]
    assert not is_compacted({})
