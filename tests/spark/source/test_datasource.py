from __future__ import annotations

import logging
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.planning.filters import ALL_ROWS
from kafka_remote_client.spark.source import datasource, pyspark_api
from kafka_remote_client.spark.source.datasource import NAME, FilteringReader, KafkaRemoteDataSource, KafkaRemoteReader
from kafka_remote_client.spark.source.pyspark_api import InputPartition
from kafka_remote_client.spark.source.stream_reader import KafkaRemoteStreamReader
from tests.support.embedded_topics import fill_topic, filled_cluster, records, small_cluster, tiers
from tests.support.spark_cluster import A0, A1, FakeCluster

BASE = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}
SECRETS = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": 'a.PlainLoginModule required username="u" password="canary";',
}


def test_is_known_to_spark_by_its_name() -> None:
    assert KafkaRemoteDataSource.name() == NAME == "kafka-remote"


def test_the_schema_follows_the_options() -> None:
    assert KafkaRemoteDataSource(BASE).schema().startswith("key binary, value binary, topic string")
    assert (
        KafkaRemoteDataSource(BASE | {"includeHeaders": "true"})
        .schema()
        .endswith("headers array<struct<key: string, value: binary>>")
    )


def test_another_schema_is_refused() -> None:
    source = KafkaRemoteDataSource(BASE)
    same: Any = SimpleNamespace(names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"])
    assert isinstance(source.reader(same), KafkaRemoteReader)
    other: Any = SimpleNamespace(names=["value"])
    with pytest.raises(ConfigurationError, match="kafka-remote has a fixed schema: key binary, value binary, topic string"):
        source.reader(other)


@pytest.mark.parametrize(
    ("column", "other"),
    [("offset:bigint", "offset:timestamp"), ("timestamp:timestamp", "timestamp:bigint"), ("key:binary", "key:string")],
)
def test_columns_of_other_types_are_refused(column: str, other: str) -> None:
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    told = (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int,"
        "headers:array<struct<key:string,value:binary>>>"
    )
    source = KafkaRemoteDataSource(BASE | {"includeHeaders": "true"})
    same: Any = SimpleNamespace(names=names, simpleString=lambda: told)  # of PySpark's StructType
    assert isinstance(source.reader(same), KafkaRemoteReader)
    wrong: Any = SimpleNamespace(names=names, simpleString=lambda: told.replace(column, other))
    with pytest.raises(ConfigurationError, match="kafka-remote has a fixed schema"):
        source.reader(wrong)


@pytest.mark.parametrize("refused", ['"nullable":false', '"containsNull":false'])
def test_columns_that_cannot_be_null_are_refused(refused: str) -> None:
    told = (
        '{"fields":[{"metadata":{},"name":"headers","nullable":true,"type":{"containsNull":true,"elementType":"string",'
        '"type":"array"}}],"type":"struct"}'
    )
    source = KafkaRemoteDataSource(BASE)
    same: Any = SimpleNamespace(json=lambda: told)  # of PySpark's StructType
    assert isinstance(source.reader(same), KafkaRemoteReader)
    assert isinstance(source.streamReader(same), KafkaRemoteStreamReader)
    wrong: Any = SimpleNamespace(json=lambda: told.replace(refused.replace("false", "true"), refused))
    for reader in (source.reader, source.streamReader):
        with pytest.raises(ConfigurationError, match="fixed schema, in which all columns may be null: key binary"):
            reader(wrong)


def test_a_table_whose_options_spark_lost_is_refused_with_the_reason() -> None:
    source = KafkaRemoteDataSource({})
    for reader in (source.reader, source.streamReader):
        with pytest.raises(ConfigurationError, match=r"^kafka-remote got no options; .* CREATE TABLE .* CREATE TEMPORARY VIEW"):
            reader(None)


def test_the_schema_is_that_of_both_kinds_of_queries() -> None:
    assert "offset bigint" in KafkaRemoteDataSource(BASE | {"startingOffsets": "latest"}).schema()


def test_a_stream_has_the_same_schema_and_options_of_its_own() -> None:
    source = KafkaRemoteDataSource(BASE | {"startingOffsets": "latest"})
    assert isinstance(source.streamReader(None), KafkaRemoteStreamReader)
    other: Any = SimpleNamespace(names=["value"])
    with pytest.raises(ConfigurationError, match="fixed schema"):
        source.streamReader(other)
    with pytest.raises(ConfigurationError, match="not valid in streaming queries: endingOffsets"):
        KafkaRemoteDataSource(BASE | {"endingOffsets": "latest"}).streamReader(None)


def test_bad_options_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers must be set"):
        KafkaRemoteDataSource({"subscribe": "t"}).reader(None)


def test_no_secret_is_in_a_repr() -> None:
    source = KafkaRemoteDataSource(BASE | SECRETS)
    assert "canary" not in repr(source) + repr(source.reader(None))


def test_spark_asks_once_without_a_split_where_there_is_nothing_to_read() -> None:
    assert list(KafkaRemoteReader(BASE).read(None)) == []
    assert list(KafkaRemoteReader(BASE).read(InputPartition(None))) == []


cluster = filled_cluster("filled", 400, partitions=(0, 1))


def options(cluster: EmbeddedCluster, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "assign": '{"filled":[0,1]}',
        "remote.storage.fetcher.allowed.hosts": cluster.origin_url.partition("//")[2],
        "remote.storage.fetcher.allow.http": "true",
        "remote.storage.fetcher.allow.private.addresses": "true",
        # Wide enough for a loaded machine: what is tested is what is read.
        "fetch.remote.location.timeout.ms": "20000",
        "fetch.remote.read.timeout.ms": "20000",
        **more,
    }


def read(given: dict[str, str]) -> tuple[list[Split], list[tuple[int, int, Any, Any]]]:
    """The splits, and partition, offset, key and value of all rows; each part goes through a pickle, as in Spark."""
    reader = KafkaRemoteDataSource(given).reader(None)
    travelled = pickle.loads(pickle.dumps(reader))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    table = pa.Table.from_batches([records for one in partitions for records in travelled.read(one)])
    rows = [(row["partition"], row["offset"], row.get("key"), row.get("value")) for row in table.to_pylist()]
    return [one.split for one in partitions], rows


EXPECTED = [(p, offset, *record) for p in (0, 1) for offset, record in enumerate(records(400, f"filled-{p}"))]


@pytest.mark.embedded
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_both_tiers_are_one_frame(cluster: EmbeddedCluster, isolation: str) -> None:
    before = cluster.metrics()["origin_requests"]
    splits, rows = read(options(cluster, **{"kafka.isolation.level": isolation}))
    assert rows == EXPECTED
    assert [split.topic_partition.partition for split in splits] == [0, 1]
    assert cluster.metrics()["origin_requests"] > before


@pytest.mark.embedded
def test_splits_are_cut_on_the_bounds_of_segments(cluster: EmbeddedCluster) -> None:
    splits, rows = read(options(cluster, **{"remote.splitBytes": "8000"}))
    assert rows == EXPECTED
    assert len(splits) > 4
    # The archiver makes segments of whole batches of 20 records.
    assert {split.start % 20 for split in splits} == {0}


@pytest.mark.embedded
def test_no_pickle_holds_a_url_and_no_split_an_option(cluster: EmbeddedCluster) -> None:
    source = KafkaRemoteDataSource(options(cluster, **{"kafka.ssl.key.password": "canary"}))
    reader = source.reader(None)
    splits = reader.partitions()
    # Having read, a reader travels no heavier.
    assert [len(records) for records in reader.read(splits[0])]
    stream = source.streamReader(None)
    batch = stream.partitions({"filled": {"0": 0, "1": 0}}, {"filled": {"0": 9, "1": 9}})
    assert [len(records) for records in stream.read(batch[0])]
    carried = pickle.dumps((source, reader, splits, stream, batch))
    assert b"http://" not in carried
    assert b"signature=" not in carried
    assert b"canary" not in pickle.dumps((splits, batch))
    assert cluster.bootstrap_servers.encode() not in pickle.dumps((splits, batch))


@pytest.mark.embedded
def test_a_part_of_the_log_can_be_asked_for(cluster: EmbeddedCluster) -> None:
    given = options(cluster, startingOffsets='{"filled":{"0":33,"1":-2}}', endingOffsets='{"filled":{"0":390,"1":7}}')
    _, rows = read(given | {"minPartitions": "6"})
    assert rows == [row for row in EXPECTED if (row[0] == 0 and 33 <= row[1] < 390) or (row[0] == 1 and row[1] < 7)]


@pytest.mark.embedded
def test_columns_that_are_not_asked_for_do_not_come(cluster: EmbeddedCluster) -> None:
    reader = KafkaRemoteDataSource(options(cluster, **{"remote.includeValue": "false"})).reader(None)
    names = {name for one in reader.partitions() for found in reader.read(one) for name in found.schema.names}
    assert names == {"key", "topic", "partition", "offset", "timestamp", "timestampType"}


@pytest.mark.embedded
def test_the_local_tail_comes_from_the_broker(cluster: EmbeddedCluster) -> None:
    local = tiers(cluster, "filled").earliest_local
    before = cluster.metrics()["origin_requests"]
    given = options(cluster, assign='{"filled":[0]}', startingOffsets=f'{{"filled":{{"0":{local}}}}}')
    assert read(given)[1] == [row for row in EXPECTED if row[0] == 0 and row[1] >= local]
    assert cluster.metrics()["origin_requests"] == before


@pytest.mark.embedded
@pytest.mark.parametrize("fault", ["store-down", "no-direct-fetch"])
def test_rows_are_the_same_without_the_store(tmp_path: Path, fault: str) -> None:
    with small_cluster(tmp_path) as own:
        fill_topic(own, "filled", 400, partitions=(0, 1))
        if fault == "store-down":
            own.faults.store_down()
        enabled = {"fetch.remote.enabled": "false"} if fault == "no-direct-fetch" else {}
        assert read(options(own, **enabled))[1] == EXPECTED


@pytest.mark.embedded
def test_records_that_are_deleted_after_the_plan_are_lost_and_no_fallback(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as own:
        fill_topic(own, "filled", 400, partitions=(0, 1))
        planned = []
        for loss in ("true", "false"):
            given = options(own, assign='{"filled":[0]}', failOnDataLoss=loss, **{"remote.onFallback": "fail"})
            reader = KafkaRemoteDataSource(given).reader(None)
            planned.append((reader, reader.partitions()))
        own.kafka.delete_records("filled", 0, 50)
        (strict, its_parts), (lenient, parts) = planned
        with pytest.raises(DataLossError, match="filled-0: the offsets 0 to 49 were deleted; the log starts at 50"):
            pa.Table.from_batches([records for one in its_parts for records in strict.read(one)])
        before = own.metrics()["origin_requests"]
        found = pa.Table.from_batches([records for one in parts for records in lenient.read(one)])
        assert found.column("offset").to_pylist() == list(range(50, 400))
        assert own.metrics()["origin_requests"] > before


@pytest.mark.embedded
def test_ignored_options_are_said_once(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        KafkaRemoteDataSource(options(cluster, maxOffsetsPerTrigger="5")).reader(None).partitions()
    assert caplog.text.count("kafka-remote: ignored in batch queries: maxOffsetsPerTrigger") == 1


@pytest.mark.embedded
def test_offsets_that_are_not_there_fail(cluster: EmbeddedCluster) -> None:
    reader = KafkaRemoteDataSource(options(cluster, endingOffsets='{"filled":{"0":401,"1":1}}')).reader(None)
    with pytest.raises(DataLossError, match="filled-0: the offsets 400 to 400 are not in the log"):
        reader.partitions()


class GreaterThan:
    """As PySpark's."""

    attribute = ("offset",)
    value = 49


def test_filters_are_taken_into_the_plan_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark_api, "KNOWS_FILTERS", True)
    cluster = FakeCluster()
    monkeypatch.setattr(datasource, "AdminCluster", lambda _options, _clock: cluster)
    options = {"kafka.bootstrap.servers": "b:1", "subscribe": "a", "fetch.remote.enabled": "false"}
    reader: Any = KafkaRemoteDataSource(options | {"remote.pushFilters": "true"}).reader(None)
    assert isinstance(reader, FilteringReader)
    assert list(reader.pushFilters([GreaterThan(), "another"])) == ["another"]
    splits = [partition.split for partition in reader.partitions()]
    assert [(split.topic_partition, split.start, split.end) for split in splits] == [(A0, 50, 100), (A1, 50, 200)]
    assert pickle.loads(pickle.dumps(reader))._narrowing == ALL_ROWS
    assert not hasattr(KafkaRemoteReader, "pushFilters"), "a reader with the hook fails where Spark's setting is off"
    assert type(KafkaRemoteDataSource(options).reader(None)) is KafkaRemoteReader


def test_filters_are_refused_by_name_where_pyspark_hands_none_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark_api, "KNOWS_FILTERS", False)
    with pytest.raises(ConfigurationError, match=r"PySpark 4\.1 is the oldest version that supports remote\.pushFilters"):
        KafkaRemoteDataSource(BASE | {"remote.pushFilters": "true"}).reader(None)
