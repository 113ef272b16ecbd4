"""Kafka's classes come from the archive."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.artifacts import MissingPartError, kafka_tool
from tests.support.class_archive import made_archive

pytestmark = pytest.mark.broker

_CLASS = "org.apache.kafka.common.config.AbstractConfig"
_FROM_ARCHIVE = "source: shared objects file (top)"


def test_a_tool_loads_classes_of_kafka_from_the_archive() -> None:
    try:
        archive = made_archive()
    except MissingPartError as error:
        pytest.skip(str(error))
    java, *rest = kafka_tool("kafka.tools.StorageTool", "random-uuid")
    assert f"-XX:SharedArchiveFile={archive}" in rest
    done = subprocess.run([java, "-Xlog:class+load", *rest], capture_output=True, text=True, timeout=120, check=True)
    (loaded,) = (line for line in done.stdout.splitlines() if f" {_CLASS} source: " in line)
    assert loaded.endswith(_FROM_ARCHIVE)
