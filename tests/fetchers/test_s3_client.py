"""The settings that a client accepts and refuses. No request is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from botocore.credentials import AssumeRoleCredentialFetcher
from kafka_remote_fetchers._s3_client import S3Client, S3Clients, S3Settings
from kafka_remote_fetchers.s3_signer import signed_get

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError, RemoteStorageAccessError
from tests.support.locations import ManualClock

KEYS = {"access_key": "a", "secret_key": "b", "token": "c"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "somebody")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def made(**options: object) -> S3Clients:
    return S3Clients(S3Settings.parse({name.replace("_", "."): value for name, value in options.items()}), SystemClock())


def url(clients: S3Clients) -> str:
    client = clients.current.boto
    return str(client.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "key"})).partition("?")[0]


@pytest.mark.parametrize(
    ("options", "leads_to"),
    [
        ({"s3_region": "eu-west-1"}, "https://bucket.s3.eu-west-1.amazonaws.com/key"),
        ({"s3_region": "eu-west-1", "s3_path_style": "true"}, "https://s3.eu-west-1.amazonaws.com/bucket/key"),
        ({"s3_endpoint_url": "https://store.example:9000", "s3_path_style": True}, "https://store.example:9000/bucket/key"),
        ({"s3_endpoint_url": "http://127.0.0.1:9", "allow_http": "true"}, "http://127.0.0.1:9/bucket/key"),
    ],
)
def test_region_endpoint_and_path_style_decide_the_host_and_path(options: dict[str, object], leads_to: str) -> None:
    assert url(made(**options)) == leads_to


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"s3_colour": "red"}, r"unknown setting: s3\.colour; known settings: s3\.endpoint\.url, .*s3\.region"),
        ({"s3_endpoint_url": "store.example"}, "must be http"),
        ({"s3_endpoint_url": "https://user:secret@store.example/x"}, "must be http"),
        ({"s3_endpoint_url": "http://store.example"}, "plain http; set remote.storage.fetcher.allow.http=true"),
        ({"s3_path_style": "maybe"}, "must be true or false"),
        ({"ssl_ca_location": "/none.pem"}, r"ssl\.ca\.location cannot be read as PEM"),
        ({"s3_profile": "nobody"}, "unknown profile"),
        ({"s3_region": "no region"}, "boto3 rejected the s3 settings"),
    ],
)
def test_refuses_invalid_settings_without_showing_values(options: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        made(**options)
    assert "secret" not in str(caught.value)


def test_a_missing_access_or_secret_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigurationError, match="access key or secret key is missing"):
        made()


@pytest.mark.parametrize("process", ["/none", "/bin/false", "/bin/echo canary"])
def test_a_credential_process_that_gives_none_is_refused(
    environment: Path, monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (environment / "config").write_text(f"[default]\ncredential_process = {process}\n")
    with pytest.raises(ConfigurationError, match="boto3 rejected the s3 settings") as caught:
        made(s3_region="eu-west-1")
    assert "canary" not in str(caught.value)


def test_keys_that_cannot_be_read_again_are_an_error_of_the_store(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    keys = environment / "credentials"
    keys.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    clock = ManualClock()
    clients = S3Clients(S3Settings.parse({}), clock)
    first = clients.current
    keys.write_text("[default]\naws_access_key_id = half\n")
    with pytest.raises(RemoteStorageAccessError, match=r"no usable credentials for .*: access key or secret key is missing"):
        clients.renew(first)
    assert clients.current is first


def test_renewed_keys_that_have_expired_are_an_error_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        AssumeRoleCredentialFetcher, "fetch_credentials", lambda _: {**KEYS, "expiry_time": "2020-01-01T00:00Z"}
    )
    client = made(s3_role_arn="arn:aws:iam::123456789012:role/reader", s3_region="eu-west-1").current
    with pytest.raises(RemoteStorageAccessError, match=r"no usable credentials for s3\."):
        signed_get(client, "bucket", "key", "bytes=0-9", ttl_seconds=120)


def test_a_role_needs_credentials_to_assume_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigurationError, match="no credentials to assume the role with"):
        made(s3_role_arn="arn:aws:iam::123456789012:role/reader", s3_region="eu-west-1")


def test_a_region_applies_to_the_role_request_too() -> None:
    clients = made(s3_role_arn="arn:aws:iam::123456789012:role/reader", s3_region="eu-west-1")
    assert clients.current.boto.meta.region_name == "eu-west-1"


def test_settings_of_the_shared_configuration_count(environment: Path) -> None:
    keys = "aws_access_key_id = somebody\naws_secret_access_key = somebody\n"
    (environment / "config").write_text(f"[profile tier]\nregion = eu-north-1\n{keys}")
    assert url(made(s3_profile="tier")) == "https://bucket.s3.eu-north-1.amazonaws.com/key"


def test_client_is_renewed_once_for_all_refused_requests() -> None:
    clock = ManualClock()
    clients = S3Clients(S3Settings.parse({}), clock)
    first = clients.current
    second = clients.renew(first)
    assert second is not None
    assert second is not first
    assert clients.renew(first) is second
    assert clients.renew(second) is None
    clock.now += 10
    third = clients.renew(second)
    assert third not in (None, second)


def test_signing_uses_replaced_keys_within_a_minute(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)

    def write(name: str) -> None:
        (environment / "credentials").write_text(f"[default]\naws_access_key_id = {name}\naws_secret_access_key = secret\n")

    write("former")
    clock = ManualClock()
    clients = S3Clients(S3Settings.parse({}), clock)
    write("latter")
    clock.now += 59
    assert clients.to_sign_with().credentials.access_key == "former"
    clock.now += 1
    assert clients.to_sign_with().credentials.access_key == "latter"
    (environment / "credentials").write_text("[default]\naws_access_key_id = half\n")
    clock.now += 60
    assert clients.to_sign_with().credentials.access_key == "latter"


def test_boto3_renews_refreshable_keys() -> None:
    clock = ManualClock()
    clients = S3Clients(S3Settings.parse({"s3.role.arn": "arn:aws:iam::123456789012:role/reader"}), clock)
    clock.now += 600
    assert clients.to_sign_with() is clients.current


class Ending:
    """Credentials with a number of seconds left, as botocore reports it for its own."""

    def __init__(self, left: float) -> None:
        self._left = left

    def get_frozen_credentials(self) -> None:
        """They are not renewed."""

    def refresh_needed(self, refresh_in: float = 900.0) -> bool:
        return self._left < refresh_in


@pytest.mark.parametrize(
    ("left", "asked", "life"),
    [(3600, 120, 120), (1000, 900, 900), (900, 900, 450), (200, 120, 120), (100, 120, 30), (5, 120, 3.75), (0.5, 120, 0)],
)
def test_a_url_ends_before_the_credentials_that_signed_it(left: float, asked: float, life: float) -> None:
    assert S3Client(None, Ending(left), "store").life(asked) == life


def test_a_role_is_taken_before_the_life_of_a_url_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        AssumeRoleCredentialFetcher, "fetch_credentials", lambda _: {**KEYS, "expiry_time": "2999-01-01T00:00Z"}
    )
    client = made(s3_role_arn="arn:aws:iam::123456789012:role/reader", s3_region="eu-west-1").current
    signed = signed_get(client, "bucket", "key", "bytes=0-9", ttl_seconds=120)
    assert signed.life_seconds == 120
    assert "X-Amz-Expires=120" in signed.url


def test_a_signed_url_tells_how_long_it_lives() -> None:
    clients = made(s3_region="eu-west-1")
    client = S3Client(clients.current.boto, Ending(100), "store")
    signed = signed_get(client, "bucket", "key", "bytes=0-9", ttl_seconds=120)
    assert signed.life_seconds == 30
    assert "X-Amz-Expires=30" in signed.url


def test_permanent_credentials_do_not_shorten_a_urls_life() -> None:
    assert S3Client(None, object(), "store").life(900) == 900
    assert S3Client(None, None, "store").life(900) == 900
