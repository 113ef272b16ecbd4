from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.json_offsets import (
    EARLIEST,
    LATEST,
    NoMatch,
    OffsetName,
    SpecificOffsets,
    after_lookup,
    check_order,
    format_offsets,
    parse_assignment,
    parse_bound,
    parse_offsets,
    parse_strategy,
    parse_timestamp,
    parse_timestamps,
    per_partition,
    with_topics,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
PARTITIONS = st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 2**31 - 1))


def test_reads_spark_s_json() -> None:
    assert parse_offsets("o", '{"a":{"0":23,"1":-1},"b":{"0":-2}}') == {A0: 23, A1: LATEST, B0: EARLIEST}


def test_writes_sorted_without_blanks() -> None:
    # Partitions sort as numbers: "10" after "2".
    offsets = {B0: 5, TopicPartition("a", 10): 1, TopicPartition("a", 2): 0}
    assert format_offsets(offsets) == '{"a":{"2":0,"10":1},"b":{"0":5}}'


@given(st.dictionaries(PARTITIONS, st.integers(EARLIEST, 2**63 - 1)))
def test_written_offsets_are_read_back(offsets: dict[TopicPartition, int]) -> None:
    assert parse_offsets("o", format_offsets(offsets)) == offsets


@given(
    st.text()
    | st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)).map(json.dumps)
)
def test_any_text_gives_offsets_or_a_configuration_error(text: str) -> None:
    for parse in (parse_offsets, parse_timestamps, parse_assignment, parse_bound):
        with suppress(ConfigurationError):
            parse("o", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        '{"a":[0]}',
        '{"a":{"x":1}}',
        '{"a":{"-1":1}}',
        '{"a":{"0":"1"}}',
        '{"a":{"0":true}}',
        '{"a":{"0":1.0}}',
        '{"a":{"0":-3}}',
        '{"a":{"0":9223372036854775808}}',
        '{"a":{"2147483648":1}}',
        '{"a":{"0":NaN}}',
        "[" * 100_000,
    ],
)
def test_refuses_other_json(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"startingOffsets must be JSON such as"):
        parse_offsets("startingOffsets", text)


def test_timestamps_may_be_any_number() -> None:
    assert parse_timestamps("o", '{"a":{"0":-5000}}') == {A0: -5000}
    assert parse_timestamp("o", " 1700000000000 ") == 1_700_000_000_000
    with pytest.raises(ConfigurationError, match="o must be a timestamp"):
        parse_timestamp("o", "now")


@pytest.mark.parametrize(("text", "name"), [("earliest", OffsetName.EARLIEST), (" LATEST ", OffsetName.LATEST)])
def test_ends_of_the_log_have_names(text: str, name: OffsetName) -> None:
    assert parse_bound("o", text) is name


def test_ends_of_the_log_have_numbers() -> None:
    assert (OffsetName.EARLIEST.offset, OffsetName.LATEST.offset) == (-2, -1)


def test_a_bound_may_be_json() -> None:
    assert parse_bound("o", '{"a":{"0":7}}') == SpecificOffsets({A0: 7})


def test_a_bound_may_name_an_end_for_a_whole_topic() -> None:
    bound = parse_bound("o", '{"a":" Earliest","b":{"0":7}}')
    assert bound == SpecificOffsets({B0: 7}, {"a": EARLIEST})
    assert bound.names(EARLIEST)
    assert not bound.names(LATEST)
    assert with_topics("o", bound, [A0, A1, B0]) == {A0: EARLIEST, A1: EARLIEST, B0: 7}
    with pytest.raises(ConfigurationError, match=r"^o names a, which is not read$"):
        with_topics("o", bound, [B0])
    for other in ('{"a":"first"}', '{"a":{"0":"earliest"}}', '"earliest"'):
        with pytest.raises(ConfigurationError, match="o must be JSON such as"):
            parse_bound("o", other)


def test_a_checkpoint_names_no_whole_topic() -> None:
    with pytest.raises(ConfigurationError, match="o must be JSON such as"):
        parse_offsets("o", '{"a":"earliest"}')


@pytest.mark.parametrize(
    ("text", "name"), [('{"a":"earliest","b":"latest","a":{"0":1}}', "a"), ('{"a":{"0":1,"1":2,"1":3}}', "1")]
)
def test_duplicate_names_are_refused(text: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^o names {name} twice$"):
        parse_bound("o", text)


def test_a_start_is_before_its_end_and_has_the_same_partitions() -> None:
    check_order("s", {A0: 5, A1: EARLIEST}, "e", {A0: LATEST, A1: 0})
    check_order("s", {A0: 5}, "e", {A0: 5})
    with pytest.raises(ConfigurationError, match=r"^a-0: s begins at offset 6, after the end at 5 \(e\)$"):
        check_order("s", {A0: 6}, "e", {A0: 5})
    with pytest.raises(ConfigurationError, match=r"^s and e must name the same partitions; one leaves out a-1$"):
        check_order("s", {A0: 6}, "e", {A0: 5, A1: 5})


def test_strategies_have_spark_s_names() -> None:
    assert parse_strategy("s", "LATEST") is NoMatch.LATEST
    with pytest.raises(ConfigurationError, match="s must be error or latest"):
        parse_strategy("s", "earliest")


def test_assignments_are_sorted_and_distinct() -> None:
    assert parse_assignment("assign", '{"b":[0],"a":[1,0,1]}') == (A0, A1, B0)


@pytest.mark.parametrize("text", ["{}", '{"a":[]}', '{"a":0}', '{"a":["0"]}', '{"a":[-1]}', '{"a":[true]}', "a"])
def test_refuses_other_assignments(text: str) -> None:
    with pytest.raises(ConfigurationError, match="assign must be JSON such as"):
        parse_assignment("assign", text)


def test_offsets_must_name_exactly_the_partitions_read() -> None:
    assert per_partition("o", {A0: 1, A1: 2}, [A0, A1]) == {A0: 1, A1: 2}
    with pytest.raises(ConfigurationError, match=r"it leaves out a-1$"):
        per_partition("o", {A0: 1}, [A0, A1])
    with pytest.raises(ConfigurationError, match=r"it leaves out a-0 and names b-0, which are not read$"):
        per_partition("o", {A1: 1, B0: 1}, [A0, A1])


def test_a_long_list_of_partitions_is_shortened() -> None:
    with pytest.raises(ConfigurationError, match="t-0, t-1, t-2, t-3, t-4 and 2 more"):
        per_partition("o", {}, [TopicPartition("t", n) for n in range(7)])


def test_a_timestamp_without_a_record_follows_the_strategy() -> None:
    assert after_lookup("o", {A0: 5, A1: 6}, {A0: 10, A1: -1}, NoMatch.LATEST) == {A0: 10, A1: LATEST}
    assert after_lookup("o", {A0: 5}, {A0: 10}, NoMatch.ERROR) == {A0: 10}
    assert after_lookup("o", {A0: 5}, {A0: 0}, NoMatch.LATEST) == {A0: 0}
    with pytest.raises(ConfigurationError, match="the timestamp in a-1; startingOffsetsByTimestampStrategy=latest"):
        after_lookup("o", {A0: 5, A1: 6}, {A0: 10, A1: -1}, NoMatch.ERROR)
