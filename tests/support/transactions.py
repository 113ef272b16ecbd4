"""Settings of transactional producers."""

from __future__ import annotations

from typing import Final

__all__ = ["NEVER_ABORTED"]

NEVER_ABORTED: Final = {"transaction.timeout.ms": 3_600_000, "socket.timeout.ms": 60_000}
"""No test takes an hour, so no transaction is aborted except on purpose.

librdkafka's default for the second is the first less 100, and its product with 1000 is an int of 32 bits. Above 2,147,483 ms
each request is overdue at once: the producer is disconnected whenever a request waits during the check, which comes once a
second. After a restart of the broker both may come together each time, and no record arrives.
"""
