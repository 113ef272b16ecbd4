"""A client of librdkafka whose broker cannot be reached: one line a minute for each broker, and nothing on standard error."""

from __future__ import annotations

import logging
import socket

import pytest
from confluent_kafka import Consumer, KafkaError

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.remote_log.client_log import ClientLog
from tests.support.locations import ManualClock

LOG = logging.getLogger("kafka_remote_client.test")
REFUSED = "Connect to ipv4#10.0.0.1:9092 failed: Connection refused"


def transport(text: str) -> KafkaError:
    return KafkaError(KafkaError._TRANSPORT, text)


@pytest.mark.parametrize("name", ["kafka:9092/bootstrap", "kafka:9092/1", "sasl_ssl://kafka:9092/bootstrap"])
def test_a_broker_has_one_warning_a_minute_with_a_count(name: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log = ClientLog(LOG, clock)
    for _ in range(40):
        log.error(transport(f"{name}: {REFUSED} (after 1ms in state CONNECT, 30 identical error(s) suppressed)"))
    log.error(transport(f"other:9092/2: {REFUSED}"))
    clock.now += 60
    log.error(transport(f"{name}: {REFUSED}"))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"no connection to broker kafka:9092: {REFUSED}; trying again"),
        ("WARNING", f"no connection to broker other:9092: {REFUSED}; trying again"),
        ("WARNING", f"no connection to broker kafka:9092: {REFUSED}; trying again (39 more since the last line)"),
    ]


def test_other_errors_have_a_line_for_each_code(caplog: pytest.LogCaptureFixture) -> None:
    log = ClientLog(LOG, ManualClock())
    for _ in range(2):
        log.error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
        log.error(KafkaError(KafkaError._FATAL, "a fatal error"))
        log.error(KafkaError(KafkaError._FS, "100% of the disk"))
    assert caplog.messages == ["librdkafka: a fatal error", "librdkafka: 100% of the disk"]


def test_lines_of_the_log_keep_their_level(caplog: pytest.LogCaptureFixture) -> None:
    log = ClientLog(LOG, ManualClock())
    with caplog.at_level(logging.DEBUG, LOG.name):
        for _ in range(2):
            log.log(logging.ERROR, "%s [%s] %s", "FAIL", "rdkafka#consumer-1", "100% down")
            log.log(logging.INFO, "%s [%s] %s", "TERM", "rdkafka#consumer-1", "ended")
            log.log(logging.DEBUG, "plain")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "librdkafka: FAIL [rdkafka#consumer-1] 100% down"),
        (logging.INFO, "librdkafka: TERM [rdkafka#consumer-1] ended"),
        (logging.DEBUG, "librdkafka: plain"),
    ]


def test_an_unreachable_broker_is_logged_once(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nothing listens
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        failures = []
        log = ClientLog(LOG, SystemClock())

        def error_cb(error: KafkaError) -> None:
            failures.append(error)
            log.error(error)

        consumer = Consumer(
            {"bootstrap.servers": address, "group.id": "g", **log.callbacks(), "error_cb": error_cb, "reconnect.backoff.ms": 1}
        )
        while sum(failure.code() == KafkaError._TRANSPORT for failure in failures) < 3:
            consumer.poll(1)
        consumer.close()
    text = f"no connection to broker {address}: Connect to ipv4#{address} failed: Connection refused; trying again"
    assert [message for message in caplog.messages if message.startswith("no connection")] == [text]
    assert capfd.readouterr().err == ""
