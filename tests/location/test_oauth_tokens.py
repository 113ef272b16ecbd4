"""OAUTHBEARER tokens: the application's own, unsecured ones, and those of an authorization server that may misbehave."""

from __future__ import annotations

import base64
import gc
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import ConfigurationError, SaslAuthenticationError
from kafka_remote_client.location.oauth_tokens import (
    ClientCredentials,
    OauthCallback,
    Token,
    UnsecuredTokens,
    WatchedTokens,
)
from kafka_remote_client.location.sasl_settings import with_watched_oauth, with_watched_tokens
from tests.support.certificates import Authority
from tests.support.clocks import TickingClock
from tests.support.locations import ManualClock
from tests.support.token_server import TokenServer

SECRET = "canary-of-a-secret"


def ample(clock: ManualClock) -> Deadline:
    return Deadline(clock, 60)


def decoded(part: str) -> dict[str, Any]:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


# The application's own callback


def test_only_librdkafka_calls_a_consumers_token_callback() -> None:
    clock = ManualClock(now=1000.0)
    calls: list[str] = []

    def callback(config: str) -> tuple[Any, ...]:
        calls.append(config)
        return f"token-{len(calls)}", 1010.0, "principal", {"a": "b"}

    settings = with_watched_oauth({"oauth_cb": callback, "sasl.oauthbearer.config": "c", "group.id": "g"}, clock)
    watched = settings["oauth_cb"]
    assert isinstance(watched, OauthCallback)
    assert settings["group.id"] == "g"
    with pytest.raises(SaslAuthenticationError, match="an expired token"):
        watched.token(ample(clock))
    assert calls == []
    assert watched("c") == ("token-1", 1010.0, "principal", {"a": "b"})
    assert watched.token(ample(clock)) == Token("token-1", 1_010_000, {"a": "b"})
    clock.now = 1010.0
    with pytest.raises(SaslAuthenticationError):
        watched.token(ample(clock))
    assert calls == ["c"]


def test_an_answer_that_librdkafka_refuses_leaves_the_token() -> None:
    clock = ManualClock(now=1000.0)
    answers: list[Any] = [None, ("token-1", 1010.0)]
    watched = OauthCallback(lambda _: answers.pop(), "", clock, calls_itself=False)
    watched("")
    watched("")
    assert watched.token(ample(clock)).value == "token-1"


def test_an_engine_has_the_tokens_and_does_not_keep_the_callback() -> None:
    clock = ManualClock(now=1000.0)
    settings = with_watched_oauth({"oauth_cb": lambda config: (f"token-of-{config}", 1010.0), "group.id": "g"}, clock)
    of_engine = with_watched_tokens(settings)
    tokens = of_engine["oauth_cb"]
    assert isinstance(tokens, WatchedTokens)
    assert of_engine["group.id"] == "g"
    with pytest.raises(SaslAuthenticationError, match="an expired token"):
        tokens.token(ample(clock))
    assert tokens("c") == ("token-of-c", 1010.0), "clients of the engine's own call it too"
    assert tokens.token(ample(clock)) == Token("token-of-c", 1_010_000)
    settings.clear()
    gc.collect()
    for call in (lambda: tokens("c"), lambda: tokens.token(ample(clock))):
        with pytest.raises(SaslAuthenticationError, match="was dropped"):
            call()


def test_callback_without_a_consumer_is_called_once_for_each_token() -> None:
    clock = ManualClock(now=1000.0)
    calls: list[str] = []

    def callback(config: str) -> tuple[Any, ...]:
        calls.append(config)
        return f"token-{len(calls)}", clock.now + 10

    source = OauthCallback(callback, "config", clock, calls_itself=True)
    assert [source.token(ample(clock)).value for _ in range(2)] == ["token-1", "token-1"]
    clock.now += 11
    assert source.token(ample(clock)).value == "token-2"
    assert calls == ["config", "config"]


def test_a_callback_that_fails_does_not_end_a_valid_token(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock(now=1000.0)
    answers: list[Any] = [("token-1", 1100.0)]

    def callback(_: str) -> Any:
        if not answers:
            raise RuntimeError(SECRET)
        return answers.pop()

    source = OauthCallback(callback, "", clock, calls_itself=True)
    assert source.token(ample(clock)).value == "token-1"
    clock.now += 81
    assert [source.token(ample(clock)).value for _ in range(2)] == ["token-1", "token-1"]
    assert len(caplog.messages) == 1, "the next attempt waits"
    assert "RuntimeError" in caplog.text
    assert SECRET not in caplog.text
    answers.append(("token-2", 1050.0))  # expired
    clock.now += 10
    assert source.token(ample(clock)).value == "token-1"
    answers.append(("token-3", 1200.0))
    clock.now += 8
    assert source.token(ample(clock)).value == "token-1", "the next attempt still waits"
    clock.now += 1  # its end
    assert source.token(ample(clock)).value == "token-3"
    clock.now += 100
    with pytest.raises(SaslAuthenticationError, match="RuntimeError"):
        source.token(ample(clock))


def test_a_callback_is_called_before_its_token_ends() -> None:
    clock = ManualClock(now=1000.0)
    source = OauthCallback(lambda _: (f"token at {clock.now:.0f}", clock.now + 100), "", clock, calls_itself=True)
    source.token(ample(clock))
    clock.now += 79
    assert source.token(ample(clock)).value == "token at 1000"
    clock.now += 6  # a connection authenticates again after 85 % of the token's life
    assert source.token(ample(clock)).value == "token at 1085"


@pytest.mark.parametrize("answer", [None, (), ("token",), ("token", "soon"), ("token", float("inf")), ("t", 2000.0, "p", 7)])
def test_an_answer_that_librdkafka_would_refuse_is_no_token(answer: Any) -> None:
    source = OauthCallback(lambda _: answer, "", ManualClock(), calls_itself=True)
    with pytest.raises(SaslAuthenticationError):
        source.token(ample(ManualClock()))


def test_the_error_of_a_callback_names_its_type_without_its_text() -> None:
    def callback(_: str) -> tuple[Any, ...]:
        raise RuntimeError(SECRET)

    clock = ManualClock()
    with pytest.raises(SaslAuthenticationError, match="RuntimeError") as failure:
        OauthCallback(callback, "", clock, calls_itself=True).token(ample(clock))
    assert SECRET not in str(failure.value)
    assert failure.value.__cause__ is None


def test_no_repr_shows_a_token() -> None:
    assert SECRET not in repr(Token(SECRET, 1, {"a": SECRET}))


# Unsecured tokens


def test_an_unsecured_token_has_the_claims_of_the_configuration() -> None:
    clock = ManualClock(now=1000.0)
    config = "principalClaimName=azp principal=admin scopeClaimName=roles scope=a,b lifeSeconds=600 extension_k=v"
    token = UnsecuredTokens(config, clock).token(ample(clock))
    head, claims, signature = token.value.split(".")
    assert decoded(head) == {"alg": "none"}
    assert decoded(claims) == {"azp": "admin", "roles": ["a", "b"], "iat": 1000.0, "exp": 1600.0}
    assert signature == ""
    assert (token.expires_ms, token.extensions) == (1_600_000, {"k": "v"})


def test_missing_claims_of_an_unsecured_token_have_librdkafkas_defaults() -> None:
    token = UnsecuredTokens("principal=me", ManualClock(now=0.0)).token(ample(ManualClock()))
    assert decoded(token.value.split(".")[1]) == {"sub": "me", "iat": 0.0, "exp": 3600.0}


@pytest.mark.parametrize("config", ["", "scope=a", "principal=", "principal=me colour=red", "principal=me lifeSeconds=long"])
def test_an_invalid_unsecured_configuration_is_refused(config: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.oauthbearer\.config"):
        UnsecuredTokens(config, ManualClock())


# An authorization server


@pytest.fixture
def server() -> Iterator[TokenServer]:
    made = TokenServer()
    yield made
    made.close()


def credentials(server: TokenServer, clock: ManualClock, **more: Any) -> ClientCredentials:
    return ClientCredentials(server.url, "me", SECRET, clock, **more)


def test_token_by_client_credentials_is_kept_for_most_of_its_life(server: TokenServer) -> None:
    clock = ManualClock(now=1000.0)
    source = credentials(server, clock, scope="read write", extensions={"a": "b"})
    server.answer = server.gives({"access_token": "one", "expires_in": 100})
    assert source.token(ample(clock)) == Token("one", 1_100_000, {"a": "b"})
    clock.now += 79
    assert source.token(ample(clock)).value == "one"
    server.answer = server.gives({"access_token": "two", "expires_in": "100"})
    clock.now += 2
    assert source.token(ample(clock)).value == "two"
    assert len(server.asked) == 2
    headers, body = server.asked[0]
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == f"me:{SECRET}"
    assert body == b"grant_type=client_credentials&scope=read+write"


def test_a_token_server_that_fails_does_not_end_a_valid_token(server: TokenServer) -> None:
    clock = ManualClock(now=1000.0)
    source = credentials(server, clock)
    server.answer = server.gives({"access_token": "one", "expires_in": 100})
    source.token(ample(clock))
    server.answer = server.gives({}, status=503)
    clock.now += 81
    assert [source.token(ample(clock)).value for _ in range(2)] == ["one", "one"]
    assert len(server.asked) == 2, "the next attempt waits"
    clock.now += 19
    with pytest.raises(SaslAuthenticationError, match="HTTP status 503"):
        source.token(ample(clock))


def test_no_thread_waits_for_a_renewal_while_its_token_is_valid(server: TokenServer) -> None:
    clock = ManualClock(now=1000.0)
    source = credentials(server, clock)
    server.answer = server.gives({"access_token": "one", "expires_in": 100})
    source.token(ample(clock))
    clock.now += 81
    asked: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked.append(source.token(ample(clock)).value)
        server.gives({"access_token": "two", "expires_in": 100})(handler)

    server.answer = answer
    assert source.token(ample(clock)).value == "two"
    assert asked == ["one"]


def test_without_expires_in_the_tokens_own_exp_counts(server: TokenServer) -> None:
    clock = ManualClock(now=1000.0)
    claims = base64.urlsafe_b64encode(b'{"exp":1500}').decode().rstrip("=")
    server.answer = server.gives({"access_token": f"e30.{claims}.sig"})
    assert credentials(server, clock).token(ample(clock)).expires_ms == 1_500_000
    assert server.asked[0][1] == b"grant_type=client_credentials"


BAD = {
    "no JSON": b"<html>",
    "no token": {"expires_in": 100},
    "no text": {"access_token": 7, "expires_in": 100},
    "an empty one": {"access_token": "", "expires_in": 100},
    "no life": {"access_token": "opaque"},
    "a life that is over": {"access_token": "t", "expires_in": 0},
    "no number": {"access_token": "t", "expires_in": "soon"},
    "an endless life": {"access_token": "t", "expires_in": float("inf")},
    "no object": [1, 2],
    "damaged claims": {"access_token": "a.b.c"},
    "too much": b" " * (1 << 20) + b"{}",
    "deep nesting": b"[" * 200_000,
}


@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_an_answer_without_a_token_is_an_authentication_error(server: TokenServer, answer: object) -> None:
    clock = ManualClock()
    server.answer = server.gives(answer)
    source = credentials(server, clock)
    with pytest.raises(SaslAuthenticationError, match=r"localhost returned (no|an expired) token"):
        source.token(ample(clock))
    server.answer = server.gives({"access_token": "good", "expires_in": 100})
    assert source.token(ample(clock)).value == "good"


@pytest.mark.parametrize("status", [400, 401, 500])
def test_the_error_has_the_status_and_nothing_of_the_body(server: TokenServer, status: int) -> None:
    clock = ManualClock()
    server.answer = server.gives({"error": SECRET}, status)
    with pytest.raises(SaslAuthenticationError, match=f"HTTP status {status}") as failure:
        credentials(server, clock).token(ample(clock))
    assert SECRET not in str(failure.value)


def test_a_redirect_does_not_carry_the_secret_elsewhere(server: TokenServer) -> None:
    elsewhere = TokenServer()
    try:
        clock = ManualClock()
        server.answer = server.gives({}, 307, Location=elsewhere.url)
        with pytest.raises(SaslAuthenticationError, match="HTTP status 307"):
            credentials(server, clock).token(ample(clock))
        assert elsewhere.asked == []
    finally:
        elsewhere.close()


def test_a_body_that_is_cut_is_an_authentication_error(server: TokenServer) -> None:
    clock = ManualClock()

    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"{")

    server.answer = cut
    with pytest.raises(SaslAuthenticationError, match="returned no token"):
        credentials(server, clock).token(ample(clock))


def test_an_answer_that_is_not_http_is_an_authentication_error(server: TokenServer) -> None:
    clock = ManualClock()
    server.answer = lambda handler: handler.wfile.write(b"nothing of the kind\r\n\r\n") and None
    with pytest.raises(SaslAuthenticationError, match="BadStatusLine"):
        credentials(server, clock).token(ample(clock))


def test_an_unreachable_server_is_an_authentication_error(server: TokenServer) -> None:
    clock = ManualClock()
    source = credentials(server, clock)
    server.close()
    with pytest.raises(SaslAuthenticationError, match="returned no token: URLError"):
        source.token(ample(clock))


def test_the_deadline_bounds_the_whole_answer(server: TokenServer) -> None:
    clock = TickingClock(1000.0)
    server.answer = server.gives({"access_token": "t", "expires_in": 100})
    with pytest.raises(SaslAuthenticationError, match="TimeoutError"):
        credentials(server, clock).token(Deadline(clock, 3500.0))
    with pytest.raises(SaslAuthenticationError, match="TimeoutError"):
        credentials(server, clock).token(Deadline(clock, 500.0))


def test_wait_for_another_threads_token_ends_at_the_deadline(server: TokenServer) -> None:
    asked, release = threading.Event(), threading.Event()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        release.wait(60)
        server.gives({"access_token": "t", "expires_in": 100})(handler)

    clock = ManualClock()
    server.answer = slow
    source = credentials(server, clock)
    first = threading.Thread(target=lambda: source.token(ample(clock)))
    first.start()
    try:
        assert asked.wait(60)
        with pytest.raises(SaslAuthenticationError, match="timed out getting a token"):
            source.token(Deadline(clock, 0.0))
    finally:
        release.set()
        first.join()


def test_the_configured_authority_verifies_the_server(tmp_path: Path) -> None:
    authority = Authority("Tokens")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue().write(tmp_path / "server.pem"))
    secure = TokenServer(context)
    try:
        clock = ManualClock()
        secure.answer = secure.gives({"access_token": "t", "expires_in": 100})
        with pytest.raises(SaslAuthenticationError):
            credentials(secure, clock).token(ample(clock))
        trusting = ssl.create_default_context(cadata=authority.pem)
        assert credentials(secure, clock, ssl_context=trusting).token(ample(clock)).value == "t"
    finally:
        secure.close()


@pytest.mark.parametrize(
    "url", ["", "tokens.example", "ftp://tokens.example/", "https:///token", "https://u:p@tokens.example/"]
)
def test_an_invalid_token_endpoint_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"token\.endpoint\.url") as failure:
        ClientCredentials(url, "me", SECRET, ManualClock())
    assert "u:p" not in str(failure.value)


def test_the_repr_shows_the_server_only(server: TokenServer) -> None:
    assert repr(credentials(server, ManualClock())) == "<ClientCredentials of localhost>"
