"""Shared access signatures, checked by Azurite and used as a shim's client uses them."""

from __future__ import annotations

import base64
import hmac
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from azure.storage.blob import BlobSasPermissions, generate_blob_sas
from kafka_remote_fetchers.azure_signer import AzureSigner

from kafka_remote_client.errors import ConfigurationError, RemoteStorageAccessError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import SignedUrl
from kafka_remote_client.registry import load_signer
from tests.support.azure_server import AzureServer
from tests.support.locations import ManualClock

DATA = bytes(range(256)) * 40
KEY = "a b+é.log"


@pytest.fixture
def container(azure_environment: AzureServer) -> str:
    return azure_environment.new_bucket([(f"tier/{KEY}", DATA), ("tier/other.log", DATA)])


def test_a_signature_opens_its_blob_and_all_of_it(azure_environment: AzureServer, container: str) -> None:
    signer = load_signer(f"az://{container}/tier", azure_environment.options)
    assert not signer.binds_ranges
    signed = signer.sign(KEY, ByteRange(5, 10), 60)
    assert azure_environment.read_signed(signed, 5, 10) == DATA[5:10]
    assert azure_environment.read_signed(signed, 0, len(DATA)) == DATA, "what no signature can bind has to be permitted"
    other = signer.sign("other.log", ByteRange(5, 10), 60)
    moved = SignedUrl(other.url.partition("?")[0] + "?" + signed.url.partition("?")[2])
    with pytest.raises(RemoteStorageAccessError, match="403"):
        azure_environment.read_signed(moved, 5, 10)


def test_a_signature_expires(azure_environment: AzureServer, container: str) -> None:
    """Azurite answers an authorization failure where Azure answers an expired time frame: both lead to a new URL."""
    clock = ManualClock()
    assert clock.time_ms() < 1_700_000_000_000, "long ago"
    signed = AzureSigner(f"az://{container}/tier", azure_environment.options, clock).sign(KEY, ByteRange(5, 10), 60)
    with pytest.raises(RemoteStorageAccessError):
        azure_environment.read_signed(signed, 5, 10)


def test_requests_name_the_located_version(azure_environment: AzureServer, container: str) -> None:
    signed = AzureSigner(f"az://{container}/tier", azure_environment.options).sign(KEY, ByteRange(5, 10), 60, '"x"')
    assert signed.headers == (("if-match", '"x"'),)


@pytest.mark.parametrize(
    ("options", "key", "said"),
    [
        ({}, "a2V5", "needs azure.account.name"),
        (
            {"azure.account.name": "somebody", "azure.endpoint.url": "http://127.0.0.1:1/somebody", "allow.http": True},
            "",
            "plain http endpoint needs the environment variable AZURE_STORAGE_ACCOUNT_KEY",
        ),
        ({"azure.account.name": "somebody", "azure.endpoint.url": "http://127.0.0.1:1/somebody"}, "a2V5", "plain http"),
    ],
)
def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch, options: dict[str, object], key: str, said: str) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", key)
    with pytest.raises(ConfigurationError, match=said):
        AzureSigner("az://container", options)


def signed_by_hand(key: str, query: dict[str, str], blob: str) -> str:
    """The signature of a blob's service SAS, by the string-to-sign of Azure's "Create a service SAS", 2020-12-06 and later."""
    fields = [query["sp"], "", query["se"], f"/blob/somebody/{blob}", "", "", query.get("spr", ""), query["sv"], query["sr"]]
    without_snapshot_scope_and_headers = [""] * 7
    text = "\n".join([*fields, *without_snapshot_scope_and_headers])
    return base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), "sha256")).decode()


@pytest.mark.parametrize("scheme", ["https", "http"])
def test_a_signature_for_https_is_refused_over_http(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """``spr`` is in the query and in the string that is signed, so nobody can remove it. An http endpoint has none."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    options = {"azure.account.name": "somebody", "azure.endpoint.url": f"{scheme}://127.0.0.1:1/somebody", "allow.http": True}
    clock = ManualClock()
    url = AzureSigner("az://container/tier", options, clock).sign(KEY, ByteRange(0, 1), 60).url
    query = dict(parse_qsl(urlsplit(url).query, strict_parsing=True))
    assert query.get("spr") == ("https" if scheme == "https" else None)
    assert query["sig"] == signed_by_hand("a2V5", query, f"container/tier/{KEY}")
    expiry = datetime.fromtimestamp(clock.time_ms() / 1000, UTC) + timedelta(seconds=60)
    read, spr = BlobSasPermissions(read=True), query.get("spr")
    by_azure = generate_blob_sas(
        "somebody", "container", f"tier/{KEY}", account_key="a2V5", permission=read, expiry=expiry, protocol=spr
    )
    assert dict(parse_qsl(by_azure)) == query


def test_the_default_endpoint_is_the_accounts_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    signer = AzureSigner("az://container/tier", {"azure.account.name": "somebody"})
    assert repr(signer) == "AzureSigner('container')"
    url = signer.sign("a b.log", ByteRange(0, 1), 60).url
    assert url.startswith("https://somebody.blob.core.windows.net/container/tier/a%20b.log?")
    with pytest.raises(ValueError, match="object key"):
        signer.sign("../a", ByteRange(0, 1), 60)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "canary")
    with pytest.raises(ConfigurationError, match="is not a valid key") as caught:
        AzureSigner("az://container", {"azure.account.name": "somebody"}).sign("a", ByteRange(0, 1), 60)
    assert "canary" not in str(caught.value)
