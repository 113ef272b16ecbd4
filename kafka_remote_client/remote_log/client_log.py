"""Log lines of a librdkafka client in Python's logging, each kind at most once a minute.

While a broker cannot be reached, librdkafka tries again about 20 times a second and writes a line to standard error each time.
With these callbacks it writes none::

    librdkafka calls                                | this logs
    ``error_cb``: a connection to a broker failed   | WARNING no connection to broker HOST:PORT: REASON; …
    ``error_cb``: anything else                     | WARNING librdkafka: TEXT
    ``logger``: a line of its log                   | librdkafka: TEXT, at the line's level

A line is left out if one of its kind was written within the last minute: of the same broker, error code or facility. The next
one says how many were left out.

References: librdkafka, rd_kafka_conf_set_error_cb, rd_kafka_conf_set_log_cb; confluent_kafka, ``logger``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable
from typing import Any

from confluent_kafka import KafkaError

from kafka_remote_client.clock import Clock
from kafka_remote_client.log_limit import LogLimit

__all__ = ["ClientLog", "failed_connection"]

_OF_BROKER = re.compile(r"(?:\w+://)?(?P<broker>[^/\s]+)/(?:bootstrap|[0-9]+): (?P<reason>.*)", re.DOTALL)
_DETAILS = re.compile(r" \(after [0-9]+ms in state .*\)$")
"""Time, state and librdkafka's own count of repetitions, at the end of a reason."""


def failed_connection(error: KafkaError) -> tuple[str, str] | None:
    """The broker (HOST:PORT) that an ``error_cb`` is about, and why there is no connection to it; ``None`` = another error."""
    found = _OF_BROKER.fullmatch(error.str())
    return None if found is None else (found["broker"], _DETAILS.sub("", found["reason"]))


class ClientLog:
    """Writes to ``log``. Any thread may call it. librdkafka makes its calls when the client is polled."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._limit: LogLimit[Hashable] = LogLimit(clock)

    def callbacks(self) -> dict[str, Any]:
        """The settings of confluent_kafka's clients that lead here."""
        return {"logger": self, "error_cb": self.error}

    def error(self, error: KafkaError) -> None:
        """Called by librdkafka for an error that belongs to no request."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # a line for each broker says so
            return
        found = failed_connection(error)
        if found is None:
            self.limited(logging.WARNING, error.code(), "librdkafka: %s", error.str())
            return
        self.limited(logging.WARNING, found[0], "no connection to broker %s: %s; trying again", *found)

    def log(self, level: int, text: str, *values: object) -> None:
        """Called by confluent_kafka for a line of librdkafka's log; the first of ``values`` is its facility."""
        self.limited(level, values[:1] or text, f"librdkafka: {text}", *values)

    def limited(self, level: int, kind: Hashable, text: str, *values: object) -> None:
        """Writes a line, unless one of its ``kind`` was written within the last minute."""
        left_out = self._limit.admit(kind)
        if left_out is None:
            return
        repeated = f" ({left_out} more since the last line)" if left_out else ""
        self._log.log(level, f"{text}%s", *values, repeated)
