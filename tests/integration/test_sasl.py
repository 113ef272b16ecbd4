"""SASL on a real broker's listeners, with the shim in between: the consumer, and location requests by each mechanism."""

from __future__ import annotations

import base64
import json
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.exporters.readings import readings
from kafka_remote_client.protocol import sasl_authenticate, sasl_handshake
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.sasl import SaslAuthenticator
from kafka_remote_client.shim.client_admission import QUESTION, QUESTION_VERSION
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.artifacts import SHORT_LIVED
from tests.support.certificates import Authority
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_client import RawClient
from tests.support.ports import HOST, free_ports
from tests.support.reading import PATIENCE_SECONDS, by_consume, direct, plain, read_to_end, total
from tests.support.scenario import write_wide_topic
from tests.support.token_server import TokenServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

USER, PASSWORD = "alice", "canary-of-a-password"
LOGIN = "org.apache.kafka.common.security"
REAUTHENTICATE_MS = 3_000


def properties(port: int, tls_port: int) -> dict[str, str]:
    """Properties of a broker with two more listeners: one has every mechanism and requires authentication again every three
    seconds, the other has SCRAM over TLS.
    """
    listener, tls_listener = "listener.name.sasl", "listener.name.saslssl"
    listeners = "PLAINTEXT://{host}:{port},SSL://{host}:{ssl_port}"
    sasl = f"SASL://{{host}}:{port},SASLSSL://{{host}}:{tls_port}"
    return {
        "listeners": f"{listeners},CONTROLLER://{{host}}:{{controller_port}},{sasl}",
        "advertised.listeners": f"{listeners},{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT,"
        "SASL:SASL_PLAINTEXT,SASLSSL:SASL_SSL",
        f"{tls_listener}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"{tls_listener}.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.plain.sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        f"{listener}.scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
        f"{listener}.oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="broker";',
        **{
            f"{listener}.{mechanism}.connections.max.reauth.ms": str(REAUTHENTICATE_MS)
            for mechanism in ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
        },
    }


class SaslBroker:
    """A broker with a tiered topic, its SASL listeners, and a shim in front of the one without TLS."""

    def __init__(self, broker: KafkaBroker, topic: str, shim: Shim, port: int, tls_port: int) -> None:
        self.broker = broker
        self.sasl_bootstrap_servers = f"{HOST}:{port}"
        self.topic = topic
        self.shim = shim
        self.tls_bootstrap_servers = f"{HOST}:{tls_port}"


@pytest.fixture(scope="module")
def sasl_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    port, tls_port = free_ports(2)
    java_options = ("-Xmx512m", *SHORT_LIVED)
    broker = KafkaBroker(tmp_path_factory.mktemp("sasl"), properties=properties(port, tls_port), java_options=java_options)
    try:
        broker.start()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            credential = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
            broker.admin.alter_user_scram_credentials([change])[USER].result(PATIENCE_SECONDS)
        write_wide_topic(broker, "wide")
        config = ShimConfig(
            f"{HOST}:{port}",
            store=broker.store_url,
            broker_settings={"security.protocol": "sasl_plaintext"},
            # The clients' SASL passes through the shim; the follower has its own identity.
            metadata_consumer={"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD},
        )
        with Shim(config) as shim:
            assert shim.wait_ready(PATIENCE_SECONDS)
            yield SaslBroker(broker, "wide", shim, port, tls_port)
    finally:
        broker.destroy()


def unsigned_token(config: str, life_seconds: float = 600) -> tuple[str, float]:
    """Returns what an application's ``oauth_cb`` may return."""
    now = SystemClock().time_ms() / 1000
    expires = now + life_seconds

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'sub': config, 'iat': now, 'exp': expires})}.", expires


PASSWORDS = {"sasl.username": USER, "sasl.password": PASSWORD}
MECHANISMS: dict[str, dict[str, Any]] = {
    "PLAIN": PASSWORDS,
    "SCRAM-SHA-256": PASSWORDS,
    "SCRAM-SHA-512": PASSWORDS,
    "OAUTHBEARER, unsigned": {
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": f"principal={USER} lifeSeconds=600",
    },
    "OAUTHBEARER, by the application": {"oauth_cb": unsigned_token, "sasl.oauthbearer.config": USER},
}


def sasl(name: str, **more: object) -> dict[str, object]:
    mechanism = name.partition(",")[0]
    return {"security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism, **MECHANISMS.get(name, {}), **more}


@pytest.fixture
def authorization_server() -> Iterator[TokenServer]:
    """Gives the tokens that the broker accepts to clients that send the secret."""
    server = TokenServer()
    token, _ = unsigned_token(USER)
    expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    json_type = {"Content-Type": "application/json"}  # without it librdkafka ignores the answer
    good = server.gives({"access_token": token, "expires_in": 600}, **json_type)
    bad = server.gives({"error": "invalid_client"}, status=401)
    server.answer = lambda asked: (good if asked.headers["Authorization"] == expected else bad)(asked)
    yield server
    server.close()


def by_oidc(server: TokenServer, **more: object) -> dict[str, object]:
    oidc = {
        "method": "oidc",
        "token.endpoint.url": server.url,
        "client.id": USER,
        "client.secret": PASSWORD,
        **more,
    }
    return sasl("OAUTHBEARER", **{f"sasl.oauthbearer.{name}": value for name, value in oidc.items()})


def read_directly(sasl_broker: SaslBroker, settings: dict[str, object]) -> None:
    """All records arrive, the tiered ones from the store."""
    with Consumer(direct(sasl_broker.shim, "read_committed", **settings)) as consumer:
        consumer.subscribe([sasl_broker.topic])
        rows = read_to_end(consumer, by_consume)
        metrics = consumer.metrics()
    assert rows == plain(sasl_broker.broker, sasl_broker.topic, "read_committed")
    assert total(metrics, "remote-fetch-records-total") > 0
    assert metrics["remote-fetch-fallbacks-total"] == {}


@pytest.mark.fault("S09")
@pytest.mark.parametrize("name", MECHANISMS)
def test_location_requests_use_the_consumers_own_mechanism(
    sasl_broker: SaslBroker, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        read_directly(sasl_broker, sasl(name))
    assert PASSWORD not in caplog.text


def test_location_requests_use_a_token_of_the_authorization_server(
    sasl_broker: SaslBroker, authorization_server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        read_directly(sasl_broker, by_oidc(authorization_server))
    # librdkafka's own token, and one more for the locations: each side renews by its own clock.
    assert len(authorization_server.asked) == 2
    assert PASSWORD not in caplog.text


def test_a_sasl_setting_of_librdkafka_only_leaves_all_to_the_broker(
    sasl_broker: SaslBroker, authorization_server: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    told = by_oidc(authorization_server, **{"assertion.algorithm": "ES256"})
    with (
        caplog.at_level(logging.WARNING),
        Consumer(direct(sasl_broker.shim, "read_committed", **told)) as consumer,
    ):
        assert type(consumer) is Consumer
        consumer.subscribe([sasl_broker.topic])
        rows = read_to_end(consumer, by_consume)
        metrics = consumer.metrics()
    assert rows == plain(sasl_broker.broker, sasl_broker.topic, "read_committed")
    assert not any(one.value for one in readings(metrics))
    said = [message for message in caplog.messages if "direct fetch" in message]
    assert said == ["direct fetch is off: sasl.oauthbearer.assertion.algorithm is not supported by direct fetch"]


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM"])
def test_an_unsupported_mechanism_is_logged_once_and_left_to_librdkafka(
    mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka may support it, depending on its build; the result is the same with direct fetch on."""
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "log_level": 0,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": mechanism,
    }
    ours = {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "memory"}

    def made(make: Callable[[dict[str, Any]], confluent_kafka.Consumer], config: dict[str, Any]) -> object:
        try:
            consumer = make(config)
        except confluent_kafka.KafkaException as refused:
            return refused.args[0].code(), refused.args[0].str()
        consumer.close()
        return type(consumer)

    expected = made(confluent_kafka.Consumer, settings)
    with caplog.at_level(logging.WARNING):
        assert made(Consumer, settings | ours) == (Consumer if expected is confluent_kafka.Consumer else expected)
    said = [message for message in caplog.messages if "direct fetch" in message]
    assert said == [f"direct fetch is off: sasl.mechanism={mechanism} is not supported for location requests"]


def sasl_message(client: RawClient, number: int, message: bytes) -> bytes:
    body = sasl_authenticate.encode_request(sasl_authenticate.SaslAuthenticateRequest(message), 1)
    return client.request(ApiKey.SASL_AUTHENTICATE, 1, number, body)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (None, b""),
        ("SCRAM-SHA-512", b"n,,n=alice,r=half-of-an-exchange"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer refused\x01\x01"),
        ("PLAIN", b"\0alice\0wrong"),
    ],
    ids=["no SASL", "half a SCRAM exchange", "refused token", "wrong password"],
)
def test_an_unauthenticated_client_is_not_admitted(sasl_broker: SaslBroker, mechanism: str | None, message: bytes) -> None:
    with Shim(ShimConfig(sasl_broker.sasl_bootstrap_servers)) as shim, RawClient(shim.bootstrap_servers, 60) as client:
        client.send(client.request(ApiKey.API_VERSIONS, 0, 1))
        assert client.read()
        if mechanism is not None:
            body = sasl_handshake.encode_request(sasl_handshake.SaslHandshakeRequest(mechanism), 1)
            client.send(client.request(ApiKey.SASL_HANDSHAKE, 1, 2, body) + sasl_message(client, 3, message))
            assert client.read()
            assert client.read()
        with suppress(ConnectionError):
            client.send(client.request(ApiKey.METADATA, QUESTION_VERSION, 4, QUESTION))
        assert client.closed()
        assert shim.metrics()["connections_admitted"] == 0


def test_an_authenticated_client_is_admitted(sasl_broker: SaslBroker) -> None:
    with Shim(ShimConfig(sasl_broker.sasl_bootstrap_servers)) as shim, RawClient(shim.bootstrap_servers, 60) as client:
        body = sasl_handshake.encode_request(sasl_handshake.SaslHandshakeRequest("PLAIN"), 1)
        client.send(client.request(ApiKey.SASL_HANDSHAKE, 1, 1, body))
        assert client.read()
        client.send(sasl_message(client, 2, f"\0{USER}\0{PASSWORD}".encode()))
        assert client.read()
        assert shim.metrics()["connections_admitted"] == 0
        client.send(client.request(ApiKey.METADATA, QUESTION_VERSION, 3, QUESTION))
        assert client.read()
        wait_until(lambda: shim.metrics().get("connections_admitted") == 1, "the admission")


def test_plaintext_clients_are_admitted_by_their_first_request(sasl_broker: SaslBroker) -> None:
    with Shim(ShimConfig(sasl_broker.broker.bootstrap_servers)) as shim, RawClient(shim.bootstrap_servers, 60) as client:
        client.send(client.request(ApiKey.METADATA, QUESTION_VERSION, 1, QUESTION))
        assert client.read()
        wait_until(lambda: shim.metrics().get("connections_admitted") == 1, "the admission")


@pytest.mark.parametrize("listener", ["sasl", "plaintext"])
def test_a_client_that_only_asks_for_versions_stays_where_it_is_served(sasl_broker: SaslBroker, listener: str) -> None:
    servers = {"sasl": sasl_broker.sasl_bootstrap_servers, "plaintext": sasl_broker.broker.bootstrap_servers}[listener]
    with Shim(ShimConfig(servers, admission_timeout=4.0)) as shim, RawClient(shim.bootstrap_servers, 60) as client:
        client.send(client.request(ApiKey.API_VERSIONS, 0, 1))
        assert client.read()
        if listener == "sasl":
            assert client.closed()
            assert shim.metrics()["connections_admitted"] == 0
        else:
            wait_until(lambda: shim.metrics().get("connections_admitted") == 1, "the admission")
            client.socket.settimeout(5)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)


@pytest.mark.fault("S09")
def test_scram_over_tls_works_on_both_sides_of_the_shim(
    sasl_broker: SaslBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither listener accepts anything else, so each connection that succeeded used both."""
    authority, broker = Authority("The shim's authority"), sasl_broker.broker
    scram = {"sasl.mechanism": "SCRAM-SHA-512", **PASSWORDS}
    config = ShimConfig(
        sasl_broker.tls_bootstrap_servers,
        store=broker.store_url,
        ssl_certificate=str(authority.issue().write(tmp_path / "shim.pem")),
        handshake_timeout=60,
        broker_settings={"security.protocol": "sasl_ssl", "ssl.ca.location": str(broker.authority)},
        metadata_consumer=scram,
    )
    with caplog.at_level(logging.DEBUG), Shim(config) as shim:
        assert shim.wait_ready(PATIENCE_SECONDS)
        settings = direct(shim, "read_committed", **scram, **{"security.protocol": "SASL_SSL", "ssl.ca.pem": authority.pem})
        with Consumer(settings) as consumer:
            consumer.subscribe([sasl_broker.topic])
            rows = read_to_end(consumer, by_consume)
            metrics = consumer.metrics()
    assert rows == plain(broker, sasl_broker.topic, "read_committed")
    local = broker.offsets(sasl_broker.topic).earliest_local
    assert total(metrics, "remote-fetch-records-total") >= sum(1 for offset, *_ in rows if offset < local) > 0
    assert metrics["remote-fetch-fallbacks-total"] == {}
    assert PASSWORD not in caplog.text


def test_oauth_cb_runs_in_librdkafkas_thread_and_no_call_raises(sasl_broker: SaslBroker) -> None:
    """During direct reads as with confluent's consumer: librdkafka requests a new token before the last one expires."""
    topic = sasl_broker.topic
    turn = sasl_broker.broker.offsets(topic).earliest_local // 2

    def script(make: Callable[[dict[str, Any]], confluent_kafka.Consumer]) -> object:
        reader, raised, seen = threading.get_ident(), threading.Event(), set()
        reads = threading.Event()

        def token(config: str) -> tuple[str, float]:
            seen.add((config, threading.get_ident() == reader))
            if reads.is_set() and not raised.is_set():
                raised.set()
                raise LookupError("of oauth_cb")
            return unsigned_token(config, life_seconds=8)

        by_application = {**sasl("OAUTHBEARER, by the application"), "oauth_cb": token}
        consumer = make(direct(sasl_broker.shim, "read_committed", **by_application))
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])

            def deliver() -> None:
                for message in consumer.consume(100, 0.05):
                    assert message.error() is None
                    if message.offset() == turn:
                        consumer.seek(TopicPartition(topic, 0, 0))
                    if not isinstance(consumer, Consumer) or total(consumer.metrics(), "remote-fetch-records-total"):
                        reads.set()

            wait_until(lambda: deliver() or raised.is_set(), "oauth_cb to have raised", pause=0)
            for _ in range(5):
                deliver()
        finally:
            consumer.close()
        return seen

    def confluents(config: dict[str, Any]) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(split_config(config)[1])

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(script, (confluents, Consumer))
    assert ours == theirs == {(USER, False)}


def test_a_connection_near_its_session_lifetime_authenticates_again(
    sasl_broker: SaslBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticate, authenticated = SaslAuthenticator.authenticate, []

    def counted(self: SaslAuthenticator, connection: BrokerConnection, deadline: Deadline) -> float | None:
        holds = authenticate(self, connection, deadline)
        authenticated.append(connection)
        assert holds is not None
        return holds

    monkeypatch.setattr(SaslAuthenticator, "authenticate", counted)
    with Consumer(direct(sasl_broker.shim, "read_committed", **sasl("SCRAM-SHA-256"))) as consumer:
        consumer.subscribe([sasl_broker.topic])
        read_to_end(consumer, by_consume)

        def again() -> bool:
            consumer._direct_engine.source.offsets(sasl_broker.topic, 0, Deadline(SystemClock(), PATIENCE_SECONDS))
            return any(authenticated.count(connection) > 1 for connection in authenticated)

        wait_until(again, "a connection to have authenticated twice", seconds=PATIENCE_SECONDS)


def test_a_refused_password_for_locations_costs_speed_only(sasl_broker: SaslBroker, caplog: pytest.LogCaptureFixture) -> None:
    with Consumer(direct(sasl_broker.shim, "read_committed", **sasl("PLAIN"))) as consumer:
        consumer._direct_settings["sasl.password"] = "somebody else's"
        consumer.subscribe([sasl_broker.topic])
        rows = read_to_end(consumer, by_consume)
        metrics = consumer.metrics()
    assert rows == plain(sasl_broker.broker, sasl_broker.topic, "read_committed")
    assert total(metrics, "remote-fetch-records-total") == 0
    assert set(metrics["remote-fetch-errors-total"]) == {"authentication"}
    said = [message for message in caplog.messages if "direct fetch disabled for" in message]  # again after the backoff
    assert said
    assert all("rejected PLAIN" in message for message in said)
    assert "somebody else's" not in caplog.text
