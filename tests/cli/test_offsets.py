from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_remote_client.cli.offsets import log_offset_at, parse_time
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import BrokerResponseError, ConfigurationError, DirectFetchError
from kafka_remote_client.location.cluster_metadata import Key
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from tests.support.cli_run import failed, printed
from tests.support.embedded_topics import fill_topic, filled_cluster
from tests.support.locations import ManualClock
from tests.support.mock_cluster import mock_cluster
from tests.support.ports import HOST, free_ports
from tests.support.silent_peer import SilentPeer

pytestmark = pytest.mark.embedded

cluster = filled_cluster("orders", 300, (0, 1))

TEXT = """\
topic   partition  start  local  tiered  end
orders          0      0    240     239  300
orders          1      0    240     239  300
orders          2      0      0       -    0
orders          3      0      0       -    0
"""


def test_bounds_of_both_tiers_are_a_table(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "offsets", "orders", "orders", "--bootstrap-servers", cluster.bootstrap_servers) == TEXT


def test_bounds_of_both_tiers_are_json_lines(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["offsets", "orders", "--bootstrap-servers", cluster.bootstrap_servers, "--output", "json", "--time", "2020-01-01"]
    lines = [json.loads(line) for line in printed(capsys, *asked).splitlines()]
    filled = {"topic": "orders", "start_offset": 0, "earliest_local": 240, "latest_tiered": 239, "end_offset": 300}
    empty = {"topic": "orders", "start_offset": 0, "earliest_local": 0, "latest_tiered": None, "end_offset": 0}
    assert lines == [
        *({**filled, "partition": number, "time_offset": 0} for number in (0, 1)),
        *({**empty, "partition": number, "time_offset": None} for number in (2, 3)),
    ]


def test_time_after_all_records_has_no_offset(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["offsets", "orders", "--bootstrap-servers", cluster.bootstrap_servers, "--time", "@99999999999999"]
    heading, *rows = printed(capsys, *asked).splitlines()
    assert heading.endswith("  at time")
    assert [row.split()[-1] for row in rows] == ["-"] * 4


def test_broker_without_tiered_storage_has_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    with mock_cluster("orders", [b"v"] * 3) as (host, port):
        rows = printed(capsys, "offsets", "orders", "--bootstrap-servers", f"{host}:{port}").splitlines()[1:]
    assert [row.split()[3:] for row in rows] == [["-", "-", "3"], *[["-", "-", "0"]] * 3]


def test_long_topic_names_are_folded(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    topic = fill_topic(cluster, "n" * 200, 1)
    text = printed(capsys, "offsets", topic, "--bootstrap-servers", cluster.bootstrap_servers)
    assert text.count("n") - text.splitlines()[0].count("n") == 4 * len(topic)


def test_unknown_topic_is_named(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "offsets", "nope", "--bootstrap-servers", cluster.bootstrap_servers) == (
        "kafka-remote: broker-error: Metadata of nope: broker answered with error 3 (UNKNOWN_TOPIC_OR_PARTITION)\n",
        1,
    )


def test_closed_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    closed = f"{HOST}:{free_ports(1)[0]}"
    assert failed(capsys, "offsets", "orders", "--bootstrap-servers", closed) == (
        f"kafka-remote: peer-unreachable: cannot connect to {closed}: connection refused\n",
        1,
    )


def test_broker_that_never_answers_ends_at_the_deadline(capsys: pytest.CaptureFixture[str]) -> None:
    with SilentPeer() as silent:
        text, status = failed(capsys, "offsets", "orders", "--bootstrap-servers", silent.address, "--timeout", "0.5")
        assert silent.address in text
    assert status == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--time", "noon"], "kafka-remote: --time is not a time in ISO 8601: 'noon'\n"),
        (["--time", "@9223372036854775808"], "--time must be at most @9223372036854775807, not @9223372036854775808\n"),
        (
            ["--time", "1969-12-31T23:59:59.999Z"],
            "--time must be 1970 or later, because brokers know no earlier times; not 1969",
        ),
        (["--consumer", "client.id"], "kafka-remote: --consumer must have the form KEY=VALUE\n"),
        (
            ["--consumer", "security.protocl=ssl"],
            "librdkafka rejects the settings of the consumer: No such configuration property",
        ),
        (["--consumer", "sasl.mechanism=PLAIN", "--consumer", "security.protocol=sasl_plain"], "security.protocol"),
    ],
)
def test_wrong_use_has_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    told, status = failed(capsys, "offsets", "orders", "--bootstrap-servers", f"{HOST}:1", *arguments)
    assert text in told
    assert status == 2


class ScriptedLeaders:
    """Brokers that give these answers one after the other, and the last one for ever."""

    def __init__(self, *answers: int | DirectFetchError) -> None:
        self.answers = list(answers)

    def ask_all(self, partitions: Sequence[Key], *_: object) -> dict[Key, int | DirectFetchError]:
        return {key: self.answers.pop(0) if len(self.answers) > 1 else self.answers[0] for key in partitions}


def offset_at_a_time(*answers: int | DirectFetchError) -> int:
    leaders: Any = ScriptedLeaders(*answers)
    return log_offset_at(leaders, "orders", 0, 1000, "@1000", ManualClock(), 30.0)


LATE = broker_error(ErrorCode.REQUEST_TIMED_OUT, "ListOffsets")


def test_a_late_answer_to_a_time_is_asked_for_again() -> None:
    assert offset_at_a_time(LATE, LATE, 7, 8) == 7


@pytest.mark.parametrize("error", [LATE, broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "ListOffsets")])
def test_an_error_that_stays_is_raised(error: DirectFetchError) -> None:
    with pytest.raises(BrokerResponseError) as caught:
        offset_at_a_time(error)
    assert caught.value is error


def test_times_are_iso_8601_or_milliseconds() -> None:
    assert parse_time("@1700000000000", "--time") == 1_700_000_000_000
    assert parse_time("2023-11-14T22:13:20.5", "--time") == 1_700_000_000_500
    assert parse_time("2023-11-14T23:13:20+01:00", "--time") == 1_700_000_000_000
    with pytest.raises(ConfigurationError, match="--time is not a time"):
        parse_time("@-1", "--time")
