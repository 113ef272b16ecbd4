from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.json_offsets import (
    GlobalTimestamp,
    NoMatch,
    OffsetName,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafka_remote_client.spark.options.source_options import ColumnChoice, SourceOptions, parse_columns, parse_options

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}
BASE = SERVERS | {"subscribe": "t"}
T0 = TopicPartition("t", 0)


def parsed(more: dict[str, str] | None = None, *, streaming: bool = False) -> SourceOptions:
    return parse_options(BASE | (more or {}), streaming=streaming)


def refusal(options: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(ConfigurationError) as raised:
        parse_options(options, streaming=streaming)
    return str(raised.value)


def test_defaults_are_those_of_spark_s_own_source() -> None:
    found = parsed()
    assert found.subscription.topics == ("t",)
    assert (found.start, found.end) == (OffsetName.EARLIEST, OffsetName.LATEST)
    assert found.fail_on_data_loss
    assert found.columns == ColumnChoice(key=True, value=True, headers=False)
    assert (found.min_partitions, found.max_records) == (None, None)
    assert (found.poll_timeout_ms, found.offset_retries, found.offset_retry_interval_ms) == (120_000, 3, 1000)
    assert found.group_id_prefix == "spark-kafka-relation"
    assert found.warnings == ()
    assert found.remote.enabled
    assert found.remote.fetcher_class == "presigned"
    assert found.remote.location_timeout_ms == 10_000


def test_a_stream_begins_at_the_end_by_default() -> None:
    found = parsed(streaming=True)
    assert found.start is OffsetName.LATEST
    assert found.group_id_prefix == "spark-kafka-source"


def test_names_are_read_in_any_case() -> None:
    found = parsed(
        {"INCLUDEHEADERS": "TRUE", "minpartitions": " 7 ", "remote.includevalue": "false", "maxRecordsPerPartition": "9"}
    )
    assert found.columns == ColumnChoice(value=False, headers=True)
    assert found.min_partitions == 7
    assert found.max_records == 9


def test_the_three_subscriptions_are_read() -> None:
    assert parse_options(SERVERS | {"subscribe": " b , a,, b"}).subscription.topics == ("b", "a")
    assert parse_options(SERVERS | {"assign": '{"t":[0]}'}).subscription.partitions == (T0,)
    pattern = parse_options(SERVERS | {"subscribepattern": "t[0-9]"}).subscription.pattern
    assert pattern is not None
    assert pattern.fullmatch("t5")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({}, "exactly one of assign, subscribe and subscribePattern must be set, and none is"),
        ({"assign": "{}", "subscribePattern": "x"}, "and these are: assign, subscribePattern"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"subscribepattern": " "}, "subscribePattern is empty"),
        ({"subscribepattern": "("}, "subscribePattern is not a valid Python regular expression: missing"),
    ],
)
def test_other_subscriptions_are_refused(options: dict[str, str], complaint: str) -> None:
    assert complaint in refusal(SERVERS | options)


@pytest.mark.parametrize("side", ["starting", "ending"])
def test_one_timestamp_precedes_several_and_those_precede_offsets(side: str) -> None:
    given = {f"{side}Offsets": '{"t":{"0":5}}'}
    field = "start" if side == "starting" else "end"
    found = parsed(given)
    assert getattr(found, field) == SpecificOffsets({T0: 5})
    assert getattr(found, f"{field}_option") == f"{side}Offsets"
    given |= {f"{side}OffsetsByTimestamp": '{"t":{"0":6}}'}
    found = parsed(given)
    assert getattr(found, field) == SpecificTimestamps({T0: 6})
    assert getattr(found, f"{field}_option") == f"{side}OffsetsByTimestamp"
    found = parsed(given | {f"{side}Timestamp": "7"})
    assert getattr(found, field) == GlobalTimestamp(7)
    assert getattr(found, f"{field}_option") == f"{side}Timestamp"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"startingoffsets": "latest"}, "startingOffsets: a batch query cannot begin at latest"),
        ({"startingoffsets": '{"t":{"0":-1}}'}, "startingOffsets: a batch query cannot begin at latest (-1)"),
        ({"endingoffsets": "earliest"}, "endingOffsets: a query cannot end at earliest"),
        ({"endingoffsets": '{"t":{"0":-2}}'}, "endingOffsets: a query cannot end at earliest (-2)"),
        ({"startingoffsets": '{"t":"latest"}'}, "startingOffsets: a batch query cannot begin at latest (-1)"),
        ({"endingoffsets": '{"t":"earliest"}'}, "endingOffsets: a query cannot end at earliest (-2)"),
        (
            {"startingoffsets": '{"t":{"0":5,"1":5}}', "endingoffsets": '{"t":{"0":9,"1":4}}'},
            "t-1: startingOffsets begins at offset 5, after the end at 4 (endingOffsets)",
        ),
        (
            {"startingoffsets": '{"t":{"0":5,"1":5}}', "endingoffsets": '{"t":{"0":9}}'},
            "startingOffsets and endingOffsets must name the same partitions; one leaves out t-1",
        ),
        ({"startingoffsets": "soon"}, "startingOffsets must be JSON such as"),
        ({"startingtimestamp": "soon"}, "startingTimestamp must be a timestamp"),
        ({"startingTimestamp": "-3"}, "startingTimestamp is before 1970, and Kafka finds no offsets of such times"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":-315619200000}}'}, "endingOffsetsByTimestamp is before 1970, and Kafka finds"),
        ({"startingoffsetsbytimestampstrategy": "x"}, "startingOffsetsByTimestampStrategy must be error or latest"),
        ({"failondataloss": "maybe"}, "failOnDataLoss must be true or false"),
        ({"minpartitions": "0"}, "minPartitions must be a whole number, at least 1"),
        ({"maxrecordsperpartition": "x"}, "maxRecordsPerPartition must be a whole number, at least 1"),
        ({"remote.splitbytes": "0"}, "remote.splitBytes must be a whole number, at least 1"),
        ({"fetchoffset.numretries": "-1"}, "fetchOffset.numRetries must be a whole number, at least 0"),
        ({"remote.splitsize": "5"}, "unknown option: remote.splitsize (did you mean remote.splitBytes?)"),
        ({"remote.SplitByte": "5", "remote.x": "5"}, "remote.splitbyte (did you mean remote.splitBytes?), remote.x"),
        ({"remote.storge.fetcher.class": "x"}, "did you mean remote.storage.fetcher.class?"),
        ({"fetch.remote.range.byte": "5"}, "did you mean fetch.remote.range.bytes?"),
        ({"remote.onFallback": "retry"}, "remote.onFallback must be broker or fail"),
        ({"remote.maxBrokerBytes": "-1"}, "remote.maxBrokerBytes must be a whole number, at least 0"),
        ({"fetch.remote.misspelt": "5"}, "unknown setting: fetch.remote.misspelt"),
        ({"remote.storage.misspelt": "5"}, "unknown setting: remote.storage.misspelt"),
        ({"fetch.remote.retries": "many"}, "fetch.remote.retries must be a whole number between 0 and 10, such as 2"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset is not supported"),
    ],
)
def test_invalid_values_are_refused_by_the_canonical_name(options: dict[str, str], complaint: str) -> None:
    assert complaint in refusal(BASE | options)


def test_columns_are_known_before_the_kind_of_query() -> None:
    assert parse_columns(
        {"remote.includekey": "false", "startingOffsets": "latest", "endingoffsets": "latest"}
    ) == ColumnChoice(key=False)
    with pytest.raises(ConfigurationError, match="includeHeaders must be true or false"):
        parse_columns({"includeheaders": "x"})


def test_limits_of_micro_batches_are_read() -> None:
    found = parsed({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1h"}, streaming=True)
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger, found.max_trigger_delay) == (5, 2, "1h")


@pytest.mark.parametrize(
    ("option", "attribute", "least"),
    [
        ("minPartitions", "min_partitions", 1),
        ("maxRecordsPerPartition", "max_records", 1),
        ("remote.splitBytes", "split_bytes", 1),
        ("kafkaConsumer.pollTimeoutMs", "poll_timeout_ms", 1),
        ("fetchOffset.numRetries", "offset_retries", 0),
        ("fetchOffset.retryIntervalMs", "offset_retry_interval_ms", 0),
        ("remote.maxBrokerBytes", "max_broker_bytes", 0),
    ],
)
def test_the_least_value_of_a_number_is_accepted(option: str, attribute: str, least: int) -> None:
    assert getattr(parsed({option.lower(): str(least)}), attribute) == least
    told = refusal(BASE | {option.lower(): str(least - 1)})
    assert told == f"{option} must be a whole number, at least {least}"


def test_a_minimum_batch_cannot_exceed_the_maximum() -> None:
    assert "minOffsetsPerTrigger must not be more than maxOffsetsPerTrigger" in refusal(
        BASE | {"minoffsetspertrigger": "20", "maxoffsetspertrigger": "15"}, streaming=True
    )
    assert parsed({"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "15"}, streaming=True).min_offsets_per_trigger == 15


def test_a_stream_may_begin_anywhere() -> None:
    assert parsed({"startingOffsets": '{"t":{"0":-1}}'}, streaming=True).start == SpecificOffsets({T0: -1})
    assert parsed({"startingOffsetsByTimestampStrategy": "latest"}, streaming=True).no_match is NoMatch.LATEST


def test_an_end_is_not_valid_in_streaming_queries() -> None:
    assert "endingOffsets, endingTimestamp" in refusal(
        BASE | {"endingtimestamp": "1", "endingoffsets": "latest"}, streaming=True
    )


def test_ignored_options_are_reported() -> None:
    found = parsed({"maxOffsetsPerTrigger": "5", "path": "x", "kafka.max.poll.records": "5"})
    assert found.warnings == (
        "ignored in batch queries: maxOffsetsPerTrigger",
        "ignored unknown options: path",
        "ignored options without an equivalent: kafka.max.poll.records",
    )


def test_settings_of_direct_fetch_and_of_librdkafka_are_passed_on() -> None:
    found = parsed(
        {
            "fetch.remote.max.in.flight": "3",
            "remote.storage.fetcher.allowed.hosts": "store:9000",
            "remote.storage.fetcher.class": "s3",
            "fetch.remote.enabled": "false",
            "remote.librdkafka.ssl.cipher.suites": "X",
        }
    )
    assert found.remote.max_in_flight == 3
    assert found.remote.fetcher_class == "s3"
    assert not found.remote.enabled
    assert found.remote.fetcher_options == {"remote.storage.fetcher.allowed.hosts": "store:9000"}
    assert found.client.settings["ssl.cipher.suites"] == "X"


def test_a_client_that_resolves_locations_needs_no_fetcher() -> None:
    found = parsed({"fetch.remote.location.source": "metadata-topic", "remote.storage.store.url": "file:///tier"})
    assert found.remote.fetcher_class is None


def test_no_secret_is_in_a_repr() -> None:
    shown = repr(
        parsed(
            {
                "kafka.security.protocol": "SASL_SSL",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": 'a.PlainLoginModule required username="u" password="canary1";',
                "remote.librdkafka.ssl.key.password": "canary2",
                "remote.storage.fetcher.some.secret": "canary3",
            }
        )
    )
    assert "canary" not in shown


def test_our_own_limits_and_switches_are_read() -> None:
    assert parsed({"maxBytesPerTrigger": "5"}, streaming=True).max_bytes_per_trigger == 5
    refused = refusal(BASE | {"maxbytespertrigger": "0"}, streaming=True)
    assert refused == "maxBytesPerTrigger must be a whole number, at least 1"
    assert parsed({"REMOTE.PUSHFILTERS": "true"}).push_filters
    assert "remote.pushFilters" in refusal(BASE | {"remote.pushFilters": "true"}, streaming=True)


def test_counters_go_to_an_absolute_path_or_an_object_store() -> None:
    assert parsed().counters_directory is None
    assert parsed({"remote.countersDirectory": "/data/counters"}).counters_directory == "/data/counters"
    assert parsed({"remote.countersDirectory": "file:///data/counters"}).counters_directory == "/data/counters"
    assert parsed({"remote.countersDirectory": "s3://bucket/counters"}).counters_directory == "s3://bucket/counters"
    for text in ("counters", "ftp://host/counters", ""):
        told = refusal(BASE | {"remote.countersDirectory": text})
        assert "remote.countersDirectory must be an absolute path or a URL of s3, gs, " in told


def test_a_misspelled_option_of_spark_is_named_with_the_closest_one() -> None:
    found = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", "startingOffset": "earliest"})
    assert found.warnings == ("ignored unknown options: startingoffset (did you mean startingOffsets?)",)


def test_the_brokers_take_over_unless_a_fallback_must_fail() -> None:
    base = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
    assert parse_options(base).on_fallback is OnFallback.BROKER
    assert parse_options(base).max_broker_bytes is None
    found = parse_options(base | {"REMOTE.ONFALLBACK": " Fail ", "remote.maxBrokerBytes": "0"})
    assert (found.on_fallback, found.max_broker_bytes) == (OnFallback.FAIL, 0)


def test_a_slow_store_is_not_left_if_a_fallback_must_fail() -> None:
    base = {"kafka.bootstrap.servers": "b:1", "subscribe": "t", "remote.onFallback": "fail"}
    assert parse_options(base).remote.slow_bytes_per_second == 0
    assert parse_options(base | {"fetch.remote.slow.bytes.per.second": "7"}).remote.slow_bytes_per_second == 7
