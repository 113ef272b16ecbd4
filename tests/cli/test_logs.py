"""Log lines of a long-running process have time and level, as text or as JSON."""

from __future__ import annotations

import io
import json
import logging
import re

from kafka_remote_client.cli.logs import LogFormat, write_logs

LOGGER = logging.getLogger("kafka_remote_client.shim.example")
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


def written(form: LogFormat) -> list[str]:
    stream = io.StringIO()
    write_logs(stream, form)
    LOGGER.debug("not told")
    LOGGER.info("granted %d", 7, extra={"audit_topic": "orders"})
    try:
        raise ValueError("why")
    except ValueError:
        LOGGER.exception("failed")
    return stream.getvalue().splitlines()


def test_text_has_time_level_and_trace() -> None:
    first, second, *trace = written(LogFormat.TEXT)
    assert re.fullmatch(TIME + " INFO kafka_remote_client.shim.example granted 7", first)
    assert re.fullmatch(TIME + " ERROR kafka_remote_client.shim.example failed", second)
    assert trace[-1] == "ValueError: why"


def test_json_is_one_object_per_line_with_fields_of_the_audit_log() -> None:
    first, second = map(json.loads, written(LogFormat.JSON))
    assert re.fullmatch(TIME, first.pop("time"))
    logger = "kafka_remote_client.shim.example"
    assert first == {"level": "INFO", "logger": logger, "message": "granted 7", "audit_topic": "orders"}
    assert second["trace"].endswith("ValueError: why")
