from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.spark.options import java_options
from kafka_remote_client.spark.options.java_options import translate

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}


def settings(**options: str) -> dict[str, str]:
    """Returns the settings of options with ``_`` for ``.``, with the bootstrap servers added."""
    given = {f"kafka.{key.replace('_', '.')}": value for key, value in options.items()}
    return dict(translate(SERVERS | given).settings)


def test_defaults_are_java_s() -> None:
    found = translate(SERVERS)
    assert found.settings == {"bootstrap.servers": "127.0.0.1:1", "check.crcs": "true"}
    assert found.isolation_level is IsolationLevel.READ_UNCOMMITTED
    assert found.api_timeout_ms == 60_000
    assert found.trust_store is None
    assert found.ignored == ()


def test_names_that_differ_are_translated() -> None:
    found = settings(fetch_max_wait_ms="250", request_timeout_ms="30000", receive_buffer_bytes="65536")
    assert found["fetch.wait.max.ms"] == "250"
    assert found["socket.timeout.ms"] == "30000"
    assert found["socket.receive.buffer.bytes"] == "65536"


def test_numbers_are_limited_to_librdkafkas_bounds() -> None:
    found = settings(fetch_max_bytes="1", fetch_max_wait_ms="9999999", retry_backoff_ms="0")
    assert (found["fetch.max.bytes"], found["fetch.wait.max.ms"], found["retry.backoff.ms"]) == ("1000000", "300000", "1")


def test_an_age_of_metadata_that_overflows_in_librdkafka_is_cut() -> None:
    assert settings(metadata_max_age_ms="3600000")["metadata.max.age.ms"] == "2147483"


def test_minus_one_becomes_librdkafkas_zero() -> None:
    found = settings(send_buffer_bytes="-1", connections_max_idle_ms="-1")
    assert (found["socket.send.buffer.bytes"], found["connections.max.idle.ms"]) == ("0", "0")


def test_large_answers_get_room() -> None:
    assert "receive.message.max.bytes" not in settings(fetch_max_bytes="52428800")
    assert settings(fetch_max_bytes="200000000")["receive.message.max.bytes"] == "200000512"


@pytest.mark.parametrize(("text", "level"), [("read_committed", 1), (" READ_UNCOMMITTED ", 0)])
def test_the_isolation_level_is_one_of_our_settings(text: str, level: int) -> None:
    found = translate(SERVERS | {"kafka.isolation.level": text})
    assert found.isolation_level == level
    assert "isolation.level" not in found.settings


def test_the_api_time_out_is_one_of_our_settings() -> None:
    assert translate(SERVERS | {"kafka.default.api.timeout.ms": "5000"}).api_timeout_ms == 5000


def test_booleans_are_read_as_java_reads_them() -> None:
    assert settings(check_crcs=" FALSE ")["check.crcs"] == "false"
    with pytest.raises(ConfigurationError, match=r"kafka\.check\.crcs must be true or false"):
        settings(check_crcs="0")


def test_tuning_without_a_counterpart_is_ignored_and_named() -> None:
    found = translate(
        SERVERS | {"kafka.max.poll.records": "9", "kafka.whatever": "x", "kafka.sasl.login.refresh.window.factor": "1"}
    )
    assert found.ignored == ("kafka.max.poll.records", "kafka.sasl.login.refresh.window.factor", "kafka.whatever")


@pytest.mark.parametrize("name", sorted(java_options.REFUSED))
def test_options_that_spark_refuses_are_refused_with_advice(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"kafka\.{name} is not supported: \w+"):
        translate(SERVERS | {f"kafka.{name}": "canary"})


def test_servers_without_the_prefix_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"must be set; bootstrap\.servers needs the prefix kafka\.$"):
        translate({"bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize("options", [{}, {"kafka.bootstrap.servers": "  "}])
def test_bootstrap_servers_must_be_set(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers must be set"):
        translate(options)


@pytest.mark.parametrize("name", ["fetch.min.bytes", "default.api.timeout.ms"])
def test_values_that_are_not_numbers_are_refused_and_not_shown(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"kafka\.{name} must be a whole number") as raised:
        translate(SERVERS | {f"kafka.{name}": "canary"})
    assert "canary" not in str(raised.value)


def test_an_unknown_isolation_level_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="read_uncommitted or read_committed"):
        translate(SERVERS | {"kafka.isolation.level": "serializable"})


def test_other_options_are_ignored() -> None:
    assert translate(SERVERS | {"subscribe": "t"}) == translate(SERVERS)


_TEXTS = {
    "bootstrap.servers": "127.0.0.1:1",
    "client.dns.lookup": "use_all_dns_ips",
    "metadata.recovery.strategy": "rebootstrap",
}


@settings_of(max_examples=10, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_librdkafka_accepts_every_resulting_number(number: int) -> None:
    options = {
        f"kafka.{name}": str(number) if isinstance(kind, java_options._Number) else _TEXTS.get(name, "true")
        for name, kind in java_options.TRANSLATED.items()
    }
    options["kafka.reconnect.backoff.ms"] = "0"  # librdkafka requires it to be no larger than its maximum, as Java does
    options["kafka.retry.backoff.ms"] = "1"
    found = translate(options).settings
    Consumer({"group.id": "g", **found}).close()


@pytest.mark.parametrize(
    "name", [name for name, kind in java_options.TRANSLATED.items() if isinstance(kind, java_options._Number)]
)
def test_only_numbers_that_librdkafka_rejects_are_changed(name: str) -> None:
    number = java_options.TRANSLATED[name]
    assert isinstance(number, java_options._Number)
    rejected = {number.minimum: number.minimum - 1, number.maximum: number.maximum + 1}
    if name == "metadata.max.age.ms":
        del rejected[number.maximum]  # librdkafka accepts more, and overflows
    assert number.translate(name, str(number.maximum)) == str(number.maximum)
    for bound, beyond in rejected.items():
        assert number.translate(name, str(bound)) == str(bound)
        with pytest.raises(KafkaException, match=r"outside allowed range|must be >="):
            Consumer({"group.id": "g", number.name: str(beyond)})
