"""boto3's exceptions as our errors."""

from __future__ import annotations

import ssl

import pytest
from botocore import exceptions as boto
from kafka_remote_fetchers._s3_errors import s3_guarded
from urllib3.exceptions import SSLError

from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    LocationExpiredError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from tests.support.guarded_errors import check_guarded

UNTRUSTED = ssl.SSLCertVerificationError(1, "canary")
UNTRUSTED.verify_code, UNTRUSTED.verify_message = 19, "self-signed certificate in certificate chain"
EXPIRED = ssl.SSLCertVerificationError(1, "canary")
EXPIRED.verify_code, EXPIRED.verify_message = 10, "certificate has expired"
URL = "https://canary.example/key?X-Amz-Signature=canary"


def answered(status: int, code: str, message: str = "canary", **headers: str) -> boto.ClientError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    told = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": named}}
    return boto.ClientError(told, "GetObject")


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (answered(404, "NoSuchKey"), SegmentNotFoundError),
        (answered(404, "NoSuchBucket"), RemoteStorageUnavailableError),
        (answered(403, "AccessDenied"), RemoteStorageAccessError),
        (answered(403, "AccessDenied", "Request has expired"), LocationExpiredError),
        (answered(400, "ExpiredToken"), LocationExpiredError),
        (answered(503, "SlowDown", retry_after="7"), RemoteStorageThrottledError),
        (answered(301, "PermanentRedirect"), ForbiddenLocationError),
        (boto.ClientError({}, "GetObject"), RemoteStorageUnavailableError),
        (boto.NoCredentialsError(), RemoteStorageAccessError),
        (boto.CredentialRetrievalError(provider="canary", error_msg="canary"), RemoteStorageAccessError),
        (RuntimeError("canary"), RemoteStorageAccessError),
        (ValueError("canary"), RemoteStorageAccessError),
        (boto.InvalidRegionError(region_name="canary"), RemoteStorageError),
        (boto.ReadTimeoutError(endpoint_url=URL), RemoteStorageTimeoutError),
        (boto.ConnectTimeoutError(endpoint_url=URL), RemoteStorageTimeoutError),
        (boto.SSLError(endpoint_url=URL, error="canary"), RemoteStorageError),
        (boto.EndpointConnectionError(endpoint_url=URL), RemoteStorageUnavailableError),
        (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), RemoteStorageUnavailableError),
        (ConnectionResetError("canary"), RemoteStorageUnavailableError),
        (boto.ParamValidationError(report="canary"), RemoteStorageError),
    ],
)
def test_each_exception_has_its_error_and_keeps_its_text(raised: Exception, kind: type[RemoteStorageError]) -> None:
    check_guarded(s3_guarded, "store.example", raised, kind)


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (None, "cannot verify the certificate of store.example: it is not valid for this host; check the store's certificate"),
        (
            UNTRUSTED,
            "cannot verify the certificate of store.example; remote.storage.fetcher.ssl.ca.location must name",
        ),
        (EXPIRED, "cannot verify the certificate of store.example: certificate has expired; check the store's certificate"),
        (ssl.SSLError(1, "canary"), "store.example does not answer with TLS; its URL must begin with http"),
    ],
)
def test_only_a_refused_certificate_is_reported_as_one(cause: ssl.SSLError | None, said: str) -> None:
    if cause is not None:
        cause.reason = "WRONG_VERSION_NUMBER"

    def fail() -> None:
        try:
            raise SSLError(cause) from cause
        except SSLError as error:
            raise boto.SSLError(endpoint_url=URL, error=error) from error

    with pytest.raises(RemoteStorageError) as caught:
        s3_guarded("store.example", fail)
    assert str(caught.value).startswith(said)
    assert "canary" not in str(caught.value)


def test_retry_after_is_reported() -> None:
    def fail() -> None:
        raise answered(503, "SlowDown", retry_after="7")

    with pytest.raises(RemoteStorageThrottledError) as caught:
        s3_guarded("store.example", fail)
    assert caught.value.retry_after == 7


def _raise(error: Exception) -> None:
    raise error


def test_other_exceptions_pass() -> None:
    assert s3_guarded("store.example", int, "3") == 3
    for error in (KeyError("x"), ConfigurationError("x")):
        with pytest.raises(type(error), match="x"):
            s3_guarded("store.example", _raise, error)
