"""URLs signed with a user delegation key, which Azurite gives for a bearer token and checks."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core.credentials import AccessToken
from azure.identity import CredentialUnavailableError
from kafka_remote_fetchers.azure_signer import AzureSigner

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import RemoteStorageAccessError, RemoteStorageUnavailableError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from tests.support.azure_server import AzureTlsServer
from tests.support.ports import free_ports

DATA = bytes(range(256)) * 40
KEY = "a b+é.log"


class Clock(SystemClock):
    """The system's time, and what a test adds."""

    def __init__(self) -> None:
        self.more_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.more_ms


class Identity:
    """A credential that gives one token and counts how often it is asked."""

    def __init__(self, token: str) -> None:
        self._token = token
        self.asked = 0

    def get_token(self, *scopes: str, **_: object) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",)
        self.asked += 1
        return AccessToken(self._token, 2**31)


class NoIdentity:
    def get_token(self, *_: str, **__: object) -> AccessToken:
        raise CredentialUnavailableError("canary")


@pytest.fixture
def server(azure_tls_server: AzureTlsServer, monkeypatch: pytest.MonkeyPatch) -> AzureTlsServer:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY", raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(azure_tls_server.ca_file))
    return azure_tls_server


@pytest.fixture
def container(server: AzureTlsServer) -> str:
    return server.new_bucket([(f"tier/{KEY}", DATA), ("tier/other.log", DATA)])


def test_an_identity_signs_without_the_accounts_key(server: AzureTlsServer, container: str) -> None:
    signer = AzureSigner(f"az://{container}/tier", server.options, credential=Identity(server.token(3600)))
    signed = signer.sign(KEY, ByteRange(5, 10), 60)
    assert server.read_signed(signed, 5, 10) == DATA[5:10]
    query = parse_qs(urlsplit(signed.url).query)
    assert (query["skoid"], query["sktid"], query["sp"], query["spr"]) == (["object"], ["tenant"], ["r"], ["https"])
    other = signer.sign("other.log", ByteRange(5, 10), 60)
    moved = SignedUrl(other.url.partition("?")[0] + "?" + signed.url.partition("?")[2])
    with pytest.raises(RemoteStorageAccessError, match="403"):
        server.read_signed(moved, 5, 10)


def test_a_key_is_asked_for_again_when_a_url_would_outlive_it(server: AzureTlsServer, container: str) -> None:
    identity, clock = Identity(server.token(3600)), Clock()
    signer = AzureSigner(f"az://{container}/tier", server.options, clock, identity)
    assert identity.asked == 0, "a signer starts without Azure"
    for _ in range(3):
        signer.sign(KEY, ByteRange(5, 10), 60)
    assert identity.asked == 1
    clock.more_ms = (24 * 3600 - 90) * 1000
    signer.sign(KEY, ByteRange(5, 10), 60)
    assert identity.asked == 1
    signed = signer.sign(KEY, ByteRange(5, 10), 120)
    assert identity.asked == 2
    query = parse_qs(urlsplit(signed.url).query)
    assert query["se"][0] <= query["ske"][0], "no URL outlives its key"


@pytest.mark.parametrize("seconds", [3600, -60])
def test_an_identity_that_azure_refuses_is_an_access_error(server: AzureTlsServer, container: str, seconds: float) -> None:
    token = server.token(-60) if seconds < 0 else "canary"
    signer = AzureSigner(f"az://{container}/tier", server.options, credential=Identity(token))
    with pytest.raises(RemoteStorageAccessError, match="role Storage Blob Delegator") as caught:
        signer.sign(KEY, ByteRange(5, 10), 60)
    assert caught.value.__cause__ is None
    assert token not in str(caught.value)


def test_a_machine_without_an_identity_is_an_access_error() -> None:
    signer = AzureSigner("az://container", {"azure.account.name": "somebody"}, credential=NoIdentity())
    with pytest.raises(RemoteStorageAccessError, match=r"refuses .* \(CredentialUnavailableError\)") as caught:
        signer.sign(KEY, ByteRange(5, 10), 60)
    assert "canary" not in str(caught.value)


def test_an_azure_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY", raising=False)
    (port,) = free_ports(1)
    options = {"azure.account.name": "somebody", "azure.endpoint.url": f"https://127.0.0.1:{port}/somebody"}
    signer = AzureSigner("az://container", options, credential=Identity("token"))
    with pytest.raises(RemoteStorageUnavailableError, match="gives no user delegation key"):
        signer.sign(KEY, ByteRange(5, 10), 60)
