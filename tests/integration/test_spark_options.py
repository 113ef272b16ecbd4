"""The table of options compared with Spark's Kafka source: the names in its class file."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator

import pytest

from kafka_remote_client.spark.options.option_table import OPTIONS
from tests.support.artifacts import MissingPartError
from tests.support.spark import connector_jars

pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

_PROVIDER = "org/apache/spark/sql/kafka010/KafkaSourceProvider$.class"
# Other strings of that class: options of the sink, settings of its consumers, values.
_NO_OPTIONS = (
    {"earliest", "executor", "false", "kafka.", "latest", "none", "source"}
    | {"auto.offset.reset", "enable.auto.commit", "group.id", "max.poll.records", "receive.buffer.bytes"}
    | {"topic", "kafka.key.serializer", "kafka.value.serializer"}
    | {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer"}
)
_WIDTHS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


def texts(class_file: bytes) -> Iterator[str]:
    """The string constants of a class (the Java Virtual Machine Specification, section 4.4)."""
    (count,) = struct.unpack_from(">H", class_file, 8)
    at, number = 10, 1
    names: dict[int, str] = {}
    strings: list[int] = []
    while number < count:
        tag = class_file[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", class_file, at + 1)
            names[number] = class_file[at + 3 : at + 3 + length].decode()
            at += 3 + length
        else:
            if tag == 8:
                strings.append(*struct.unpack_from(">H", class_file, at + 1))
            at += 1 + _WIDTHS[tag]
        number += 2 if tag in {5, 6} else 1  # long and double take two entries
    return (names[each] for each in strings)


def test_the_table_has_every_option_of_sparks_source() -> None:
    try:
        jars = connector_jars()
    except MissingPartError as error:
        pytest.skip(f"no connector: {error}")
    (jar,) = (jar for jar in jars if jar.name.startswith("spark-sql-kafka-0-10"))
    with zipfile.ZipFile(jar) as opened:
        found = set(texts(opened.read(_PROVIDER)))
    options = {text for text in found if re.fullmatch(r"[a-z.]+", text)} - _NO_OPTIONS
    assert options == {option.name.lower() for option in OPTIONS if not option.is_ours}
