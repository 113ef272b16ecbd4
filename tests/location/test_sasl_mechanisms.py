"""The settings of each SASL mechanism give the authentication of a consumer's connections."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import ConfigurationError, SaslAuthenticationError
from kafka_remote_client.location import sasl_mechanisms
from kafka_remote_client.location.oauth_tokens import ClientCredentials, OauthCallback, UnsecuredTokens, WatchedTokens
from kafka_remote_client.location.sasl_settings import authenticator
from tests.support.locations import ManualClock

SECRET = "canary-of-a-secret"
CLOCK = ManualClock()
SASL: dict[str, object] = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice", "sasl.password": SECRET}
BEARER: dict[str, object] = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}
OIDC: dict[str, object] = {
    **BEARER,
    "sasl.oauthbearer.method": "OIDC",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens.example/t",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": SECRET,
}


def first_message(settings: dict[str, object]) -> bytes:
    found = authenticator(settings, CLOCK)
    assert found is not None
    return next(found._converse(Deadline(CLOCK, 60)))


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_user_and_password_are_looked_up_at_each_authentication(name: str) -> None:
    settings = {**SASL, name: "PLAIN"}
    found = authenticator(settings, CLOCK)
    assert found is not None
    assert SECRET not in repr(found)
    assert next(found._converse(Deadline(CLOCK, 60))) == f"\0alice\0{SECRET}".encode()
    settings["sasl.password"] = "changed"
    assert next(found._converse(Deadline(CLOCK, 60))) == b"\0alice\0changed"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "scram-sha-512"])
def test_scram_sends_the_name_first(mechanism: str) -> None:
    assert first_message({**SASL, "sasl.mechanism": mechanism}).startswith(b"n,,n=alice,r=")


def test_the_applications_callback_gives_its_tokens() -> None:
    settings = {**BEARER, "oauth_cb": lambda config: (f"token-of-{config}", 1e10), "sasl.oauthbearer.config": "c"}
    assert first_message(settings) == b"n,,\1auth=Bearer token-of-c\1\1"
    watched = OauthCallback(lambda _: ("t", 1e10), "", CLOCK, calls_itself=False)
    with pytest.raises(SaslAuthenticationError):
        first_message({**BEARER, "oauth_cb": watched})
    watched("")
    for source in (watched, WatchedTokens(watched)):
        assert first_message({**BEARER, "oauth_cb": source}) == b"n,,\1auth=Bearer t\1\1"


def test_unsecured_tokens_are_made_by_this_package() -> None:
    settings = {**BEARER, "enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=me"}
    assert isinstance(sasl_mechanisms._token_source(settings, CLOCK), UnsecuredTokens)
    assert first_message(settings).startswith(b"n,,\1auth=Bearer e")


def test_the_token_endpoint_is_used_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    class Recorded(ClientCredentials):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            made.append((arguments, more))

    monkeypatch.setattr(sasl_mechanisms, "ClientCredentials", Recorded)
    more = {"sasl.oauthbearer.scope": "read", "sasl.oauthbearer.extensions": "a=b, c=d=e", "sasl.oauthbearer.grant.type": ""}
    authenticator({**OIDC, **more}, CLOCK)
    ((arguments, found),) = made
    assert arguments == ("https://tokens.example/t", "me", SECRET, CLOCK)
    assert found["scope"] == "read"
    assert found["extensions"] == {"a": "b", "c": "d=e"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({**SASL}, "sasl.mechanism=GSSAPI"),
        ({**SASL, "sasl.mechanism": "AWS_MSK_IAM"}, "sasl.mechanism=AWS_MSK_IAM"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.username": ""}, "sasl.username is not set"),
        (BEARER, "needs oauth_cb or sasl.oauthbearer.method=oidc"),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, "client.secret must be set"),
        ({**OIDC, "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, "grant.type"),
        (
            {**OIDC, "sasl.oauthbearer.assertion.algorithm": "RS256"},
            "sasl.oauthbearer.assertion.algorithm is not supported by direct fetch",
        ),
        ({**OIDC, "https.ca.location": "/nowhere"}, "ssl.ca.location /nowhere"),
        ({**OIDC, "sasl.oauthbearer.token.endpoint.url": ""}, "token.endpoint.url"),
    ],
)
def test_an_unsupported_setting_is_refused_by_name(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError) as failure:
        authenticator(settings, CLOCK)
    assert said in str(failure.value)
    assert SECRET not in str(failure.value)
