"""Log lines of a long-running process on standard error: with time and level, as text or as JSON.

::

    2026-01-31T12:00:00.123Z INFO kafka_remote_client.shim.audit granted client_id="app" …
    {"time": "2026-01-31T12:00:00.123Z", "level": "INFO", "logger": "kafka_remote_client.shim.audit", "message": "granted …", …}

A JSON line has the fields of an audit line besides, under names that begin with ``audit_``.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

__all__ = ["LogFormat", "write_logs"]

_FIELDS = "audit_"


class LogFormat(StrEnum):
    """The format of a line."""

    TEXT = "text"
    JSON = "json"


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}"
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        return f"{line}\n{trace}" if trace else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name.startswith(_FIELDS)}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def write_logs(stream: TextIO, form: LogFormat, level: int = logging.INFO) -> logging.Handler:
    """Writes this package's log lines from ``level`` on to ``stream``. Returns the handler, which the caller may remove."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Json() if form is LogFormat.JSON else _Text())
    logger = logging.getLogger("kafka_remote_client")
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
