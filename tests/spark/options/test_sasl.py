from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.options.sasl import translate_sasl

KAFKA = "org.apache.kafka.common.security"
HANDLER = f"{KAFKA}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
URL = "https://issuer.example/token"
CLIENT = {"clientId": "c", "clientSecret": "s"}


def translated(options: dict[str, str], *, needed: bool = True) -> dict[str, str]:
    rest = dict(options)
    found = translate_sasl(rest, needed=needed)
    assert not rest, "all of them are taken"
    return found


def jaas(module: str, **options: str) -> str:
    return f"{module} required " + " ".join(f'{key}="{value}"' for key, value in options.items()) + ";"


def oauthbearer(
    options: dict[str, str], more: dict[str, str] | None = None, *, handler: str | None = HANDLER
) -> dict[str, str]:
    given = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas(f"{KAFKA}.oauthbearer.OAuthBearerLoginModule", **options),
    }
    return given | ({} if handler is None else {"sasl.login.callback.handler.class": handler}) | (more or {})


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", f"{KAFKA}.plain.PlainLoginModule"),
        ("PLAIN", f"kafkashaded.{KAFKA}.plain.PlainLoginModule"),
        ("SCRAM-SHA-256", f"{KAFKA}.scram.ScramLoginModule"),
        ("SCRAM-SHA-512", f"{KAFKA}.scram.ScramLoginModule"),
    ],
)
def test_user_name_and_password_are_translated(mechanism: str, module: str) -> None:
    found = translated({"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(module, username="u", password="p")})
    assert found == {"sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": "p"}
    Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "security.protocol": "sasl_plaintext", **found}).close()


def test_without_sasl_no_setting_is_required() -> None:
    assert translated({}, needed=False) == {}


def test_the_default_mechanism_is_kerberos_which_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Kerberos"):
        translated({})


@pytest.mark.parametrize("mechanism", ["GSSAPI", "NTLM"])
def test_other_mechanisms_are_refused_with_the_list(mechanism: str) -> None:
    with pytest.raises(ConfigurationError, match="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"):
        translated({"sasl.mechanism": mechanism})


def test_jaas_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.jaas\.config must be set"):
        translated({"sasl.mechanism": "PLAIN"})


def test_module_and_mechanism_must_agree() -> None:
    with pytest.raises(ConfigurationError, match=r"must name ScramLoginModule for sasl\.mechanism=SCRAM-SHA-256"):
        translated({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas("PlainLoginModule")})


def test_user_name_and_password_must_be_given() -> None:
    with pytest.raises(ConfigurationError, match="username and password"):
        translated({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("PlainLoginModule", username="u")})


def test_delegation_tokens_are_refused() -> None:
    config = jaas("ScramLoginModule", username="u", password="p", tokenauth="true")
    with pytest.raises(ConfigurationError, match="not supported: tokenauth"):
        translated({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": config})


def test_a_callback_class_is_refused() -> None:
    given = {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas("PlainLoginModule"),
        "sasl.login.callback.handler.class": "a.B",
    }
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.login\.callback\.handler\.class is a Java class"):
        translated(given)


@pytest.mark.parametrize("handler", [HANDLER, f"kafkashaded.{HANDLER.replace('secured.', '')}"])
def test_oauthbearer_with_kafka_s_own_handler_becomes_oidc(handler: str) -> None:
    more = {"sasl.oauthbearer.token.endpoint.url": URL}
    found = translated(
        oauthbearer({**CLIENT, "scope": "read", "extension_logicalCluster": "lkc", "extension_b": "2"}, more, handler=handler)
    )
    assert found == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": URL,
        "sasl.oauthbearer.client.id": "c",
        "sasl.oauthbearer.client.secret": "s",
        "sasl.oauthbearer.scope": "read",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc,b=2",
    }
    Consumer({"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "security.protocol": "sasl_ssl", **found}).close()


def test_newer_names_of_the_credentials_are_read() -> None:
    more = {
        "sasl.oauthbearer.token.endpoint.url": URL,
        "sasl.oauthbearer.client.credentials.client.id": "c",
        "sasl.oauthbearer.client.credentials.client.secret": "s",
    }
    found = translated(oauthbearer({}, more))
    assert (found["sasl.oauthbearer.client.id"], found["sasl.oauthbearer.client.secret"]) == ("c", "s")
    assert "sasl.oauthbearer.scope" not in found


def test_oidc_needs_credentials_and_an_endpoint() -> None:
    with pytest.raises(ConfigurationError, match="clientId and clientSecret"):
        translated(oauthbearer({"clientId": "c"}))


def test_options_that_oidc_does_not_support_are_refused_by_name() -> None:
    more = {"sasl.oauthbearer.token.endpoint.url": URL, "sasl.oauthbearer.jwks.endpoint.url": "x"}
    with pytest.raises(ConfigurationError, match=r"not supported: other, sasl\.oauthbearer\.jwks\.endpoint\.url"):
        translated(oauthbearer({**CLIENT, "other": "x"}, more))


@pytest.mark.parametrize("handler", ["com.example.OAuthBearerLoginCallbackHandler", f"{HANDLER}2"])
def test_other_handlers_are_refused(handler: str) -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.sasl\.login\.callback\.handler\.class is a Java class"):
        translated(oauthbearer(CLIENT, handler=handler))


@pytest.mark.parametrize(
    ("lifetime", "config"), [({}, "principal=u"), ({"unsecuredLoginLifetimeSeconds": "60"}, "principal=u lifeSeconds=60")]
)
def test_an_unsecured_token_is_librdkafka_s(lifetime: dict[str, str], config: str) -> None:
    found = translated(oauthbearer({"unsecuredLoginStringClaim_sub": "u", **lifetime}, handler=None))
    assert found["enable.sasl.oauthbearer.unsecure.jwt"] == "true"
    assert found["sasl.oauthbearer.config"] == config


@pytest.mark.parametrize(
    "options", [{}, {"unsecuredLoginStringClaim_sub": "a b"}, {"unsecuredLoginStringClaim_sub": "a", "x": "y"}]
)
def test_an_unsecured_token_has_a_subject_only(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="OAuthBearerLoginCallbackHandler"):
        translated(oauthbearer(options, handler=None))
