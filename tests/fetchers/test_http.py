"""Each answer listed in kafka_remote_fetchers/_http.py, as a value."""

from __future__ import annotations

from http.client import HTTPMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._http import ErrorDocument, classify, partial_content_length

from kafka_remote_client.errors import (
    ForbiddenLocationError,
    InvalidStorageResponseError,
    LocationExpiredError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageThrottledError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.shim.origin import error_body

AZURE_EXPIRED = (
    b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to '
    b"authenticate the request.</Message><AuthenticationErrorDetail>Signature not valid in the specified time frame: Start "
    b"[Fri, 20 Nov 2026 10:00:00 GMT] - Expiry [...]</AuthenticationErrorDetail></Error>"
)


def head(**headers: str) -> HTTPMessage:
    message = HTTPMessage()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return message


def kind(status: int, body: bytes = b"", **headers: str) -> type[RemoteStorageError]:
    return type(classify(status, head(**headers), ErrorDocument.parse(body), "store.example:443"))


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        # F01-F05: expiry by each store's name for it, then other access errors
        (403, "AccessDenied", "Request has expired", LocationExpiredError),
        (403, "ExpiredToken", "The provided token has expired.", LocationExpiredError),
        (400, "ExpiredToken", "The provided token has expired.", LocationExpiredError),
        (400, "ExpiredToken", "", LocationExpiredError),
        (401, "TokenExpired", "", LocationExpiredError),
        (400, "InvalidRequest", "Date is too old", LocationExpiredError),
        (403, "AccessDenied", "Access Denied", RemoteStorageAccessError),
        (403, "SignatureDoesNotMatch", "", RemoteStorageAccessError),
        (403, "InvalidAccessKeyId", "", RemoteStorageAccessError),
        (403, "AuthorizationFailure", "", RemoteStorageAccessError),
        (400, "AccessDenied", "", RemoteStorageAccessError),
        (401, None, "", RemoteStorageAccessError),
        (403, None, "", RemoteStorageAccessError),
        # F06-F08
        (404, "NoSuchKey", "", SegmentNotFoundError),
        (404, None, "", SegmentNotFoundError),
        (410, None, "", SegmentNotFoundError),
        (412, "PreconditionFailed", "", SegmentNotFoundError),
        (416, "InvalidRange", "", RangeNotSatisfiableError),
        # F09-F10
        (429, None, "", RemoteStorageThrottledError),
        (503, "SlowDown", "", RemoteStorageThrottledError),
        (503, None, "", RemoteStorageThrottledError),
        (500, "InternalError", "", RemoteStorageUnavailableError),
        (502, None, "", RemoteStorageUnavailableError),
        (504, None, "", RemoteStorageUnavailableError),
        (599, None, "", RemoteStorageUnavailableError),
        (408, None, "", RemoteStorageUnavailableError),
        (499, "ClientDisconnected", "", RemoteStorageUnavailableError),
        (400, "RequestTimeout", "", RemoteStorageUnavailableError),
        # F11: an error inside 200
        (200, "InternalError", "", RemoteStorageUnavailableError),
        (200, "SlowDown", "", RemoteStorageThrottledError),
        (200, "Whatever", "", InvalidStorageResponseError),
        # the bucket, not the object
        (404, "NoSuchBucket", "", RemoteStorageUnavailableError),
        (404, "ContainerNotFound", "", RemoteStorageUnavailableError),
        # F12
        (301, "PermanentRedirect", "", ForbiddenLocationError),
        (302, None, "", ForbiddenLocationError),
        (303, None, "", ForbiddenLocationError),
        (307, "TemporaryRedirect", "", ForbiddenLocationError),
        (308, None, "", ForbiddenLocationError),
        # F13 and unexpected statuses
        (200, None, "", InvalidStorageResponseError),
        (204, None, "", InvalidStorageResponseError),
        (304, None, "", InvalidStorageResponseError),
        (100, None, "", InvalidStorageResponseError),
        (400, None, "", RemoteStorageError),
        (405, "MethodNotAllowed", "", RemoteStorageError),
        (418, None, "", RemoteStorageError),
    ],
)
def test_every_status_has_its_error(status: int, code: str | None, message: str, expected: type[RemoteStorageError]) -> None:
    assert kind(status, b"" if code is None else error_body(code, message)) is expected


def test_azures_expiry_is_recognised_by_its_detail() -> None:
    assert kind(403, AZURE_EXPIRED) is LocationExpiredError


def test_the_message_has_host_status_and_code_only() -> None:
    body = b"<Code>SignatureDoesNotMatch</Code><SignatureProvided>CANARY</SignatureProvided><StringToSign>CANARY</StringToSign>"
    error = classify(403, head(), ErrorDocument.parse(body), "store.example:443")
    assert str(error) == "store.example:443 answered 403 SignatureDoesNotMatch; check the secret key"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Code></Code>",
        b"<Code>a b</Code>",
        b"<Code>" + b"a" * 65 + b"</Code>",
        b"<Code>http://x/?sig</Code>",
        b"\xff\xfe",
    ],
)
def test_a_code_that_is_not_a_plain_word_is_not_repeated(body: bytes) -> None:
    assert ErrorDocument.parse(body) == ErrorDocument()


@given(st.integers(100, 999), st.binary(max_size=200))
def test_any_answer_is_one_of_our_errors(status: int, body: bytes) -> None:
    assert isinstance(classify(status, head(), ErrorDocument.parse(body), "h"), RemoteStorageError)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": " 0 "}, 0.0),
        ({"Retry_After": "999999999999"}, 3600.0),
        ({"Retry_After": "-1"}, None),
        ({"Retry_After": "1.5"}, None),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "9" * 400}, None),
        ({"Retry_After": "Fri, 20 Nov 2026 10:00:30 GMT", "Date": "Fri, 20 Nov 2026 10:00:00 GMT"}, 30.0),
        ({"Retry_After": "Fri, 20 Nov 2026 09:00:00 GMT", "Date": "Fri, 20 Nov 2026 10:00:00 GMT"}, 0.0),
        ({"Retry_After": "Fri, 20 Nov 2026 10:00:30 GMT"}, None),
        ({"Retry_After": f"Fri, 20 Nov {'9' * 20} 10:00:30 GMT"}, None),
        ({"Retry_After": f"Fri, 20 Nov 2026 10:00:30 +{'9' * 20}"}, None),
        ({"Retry_After": "Fri, 20 Nov 2026 10:00:30 GMT", "Date": f"Fri, 20 Nov 2026 10:00:00 +{'9' * 20}"}, None),
        ({"Retry_After": "Fri, 20 Nov 2026 10:00:30 -0000", "Date": "Fri, 20 Nov 2026 10:00:00 GMT"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_by_the_stores_clock(headers: dict[str, str], expected: float | None) -> None:
    error = classify(503, head(**headers), ErrorDocument(), "h")
    assert isinstance(error, RemoteStorageThrottledError)
    assert error.retry_after == expected


@pytest.mark.parametrize(
    ("start", "end", "headers", "length"),
    [
        (0, 10, {"Content_Range": "bytes 0-9/100"}, 10),
        (0, 10, {"Content_Range": "bytes 0-9/*"}, 10),
        (5, 10, {"Content_Range": "bytes 5-9/10", "Content_Length": "5"}, 5),
        (5, -1, {"Content_Range": "bytes 5-9/10", "Content_Length": "5"}, 5),
        (5, -1, {"Content_Range": "bytes 5-9/*"}, 5),
        (0, 1, {"Content_Range": "bytes 0-0/1", "Content_Encoding": "identity"}, 1),
    ],
)
def test_an_answer_with_the_requested_range_gives_its_length(
    start: int, end: int, headers: dict[str, str], length: int
) -> None:
    assert partial_content_length(head(**headers), WantedRange.of(start, end)) == length


@pytest.mark.parametrize(
    ("headers", "start", "end"),
    [
        # F14-F15: wrong, missing, overlapping, malformed
        ({}, 0, 10),
        ({"Content_Range": "bytes 0-8/100"}, 0, 10),
        ({"Content_Range": "bytes 0-10/100"}, 0, 10),
        ({"Content_Range": "bytes 1-10/100"}, 0, 10),
        ({"Content_Range": "bytes 10-19/100"}, 0, 10),
        ({"Content_Range": "bytes 0-9/9"}, 0, 10),
        ({"Content_Range": "bytes 0-9/5"}, 0, 10),
        ({"Content_Range": "bytes 9-0/100"}, 9, 10),
        ({"Content_Range": "bytes */100"}, 0, 10),
        ({"Content_Range": "0-9/100"}, 0, 10),
        ({"Content_Range": "bytes=0-9/100"}, 0, 10),
        ({"Content_Range": "bytes 0-9"}, 0, 10),
        ({"Content_Range": "items 0-9/100"}, 0, 10),
        ({"Content_Range": "bytes 0-9/100, bytes 20-29/100"}, 0, 10),
        ({"Content_Range": "bytes -0-9/100"}, 0, 10),
        ({"Content_Range": "bytes 0-9/1e9"}, 0, 10),
        ({"Content_Range": "bytes \uff10-9/100"}, 0, 10),
        ({"Content_Range": "bytes 0-" + "9" * 30 + "/*"}, 0, 10),
        ({"Content_Range": "bytes 5-8/10"}, 5, -1),
        ({"Content_Range": "bytes 0-9/100", "Content_Length": "11"}, 0, 10),
        ({"Content_Range": "bytes 0-9/100", "Content_Length": "9"}, 0, 10),
        ({"Content_Range": "bytes 0-9/100", "Content_Length": "ten"}, 0, 10),
        ({"Content_Range": "bytes 0-9/100", "Content_Length": "-10"}, 0, 10),
        # F16
        ({"Content_Range": "bytes 0-9/100", "Content_Encoding": "gzip"}, 0, 10),
        ({"Content_Range": "bytes 0-9/100", "Content_Encoding": "Identity, br"}, 0, 10),
    ],
)
def test_an_answer_with_another_range_is_an_invalid_response(headers: dict[str, str], start: int, end: int) -> None:
    with pytest.raises(InvalidStorageResponseError):
        partial_content_length(head(**headers), WantedRange.of(start, end))


@pytest.mark.parametrize("content_range", ["bytes 0-4/5", "bytes 0-8/9"])
def test_an_object_that_ends_inside_the_range_is_not_satisfiable(content_range: str) -> None:
    with pytest.raises(RangeNotSatisfiableError):
        partial_content_length(head(Content_Range=content_range), WantedRange.of(0, 10))


@given(st.text(max_size=40), st.text(max_size=10), st.text(max_size=10))
def test_any_response_head_gives_the_length_or_one_of_our_errors(content_range: str, length: str, encoding: str) -> None:
    headers = {"Content-Range": content_range, "Content-Length": length, "Content-Encoding": encoding}
    try:
        found = partial_content_length(headers, WantedRange.of(0, 10))
    except RemoteStorageError:
        return
    assert found == 10


@pytest.mark.parametrize(
    ("status", "body", "headers", "said"),
    [
        (400, b"<Code>AuthorizationHeaderMalformed</Code>", {}, "set s3.region to the region of the bucket"),
        (400, b"<Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region>", {}, "set s3.region to eu-west-1, the"),
        (301, b"<Code>PermanentRedirect</Code>", {"x-amz-bucket-region": "eu-west-1"}, "set s3.region to eu-west-1, the"),
        (400, b"<Code>IllegalLocationConstraintException</Code>", {}, "set s3.region to the region of the bucket"),
        (400, b"<Code>AuthorizationQueryParametersError</Code><Region>eu-west-1</Region>", {}, "set s3.region to eu-west-1"),
        (400, b"<Code>AuthorizationHeaderMalformed</Code><Region>no region!</Region>", {}, "set s3.region to the region of"),
        (400, b"<Code>AuthorizationHeaderMalformed</Code>", {"x-amz-bucket-region": "a\nb"}, "set s3.region to the region of"),
    ],
)
def test_bucket_in_another_region_is_named(status: int, body: bytes, headers: dict[str, str], said: str) -> None:
    assert f"; {said}" in str(classify(status, headers, ErrorDocument.parse(body), "store.example"))


@pytest.mark.parametrize("text", ["Request is not valid yet", "Request is not yet valid"])
def test_url_of_a_clock_that_is_ahead_names_the_clocks(text: str) -> None:
    error = classify(403, {}, ErrorDocument.parse(error_body("AccessDenied", text)), "store.example")
    assert isinstance(error, RemoteStorageAccessError)
    assert "; the signed URL is not valid yet: compare the clocks of the store and of the shim or client" in str(error)
    assert "credentials" not in str(error)
    assert error.clocks_differ


@pytest.mark.parametrize(("code", "differ"), [("RequestTimeTooSkewed", True), ("SignatureDoesNotMatch", False)])
def test_only_a_refused_time_says_that_clocks_differ(code: str, differ: bool) -> None:
    error = classify(403, {}, ErrorDocument.parse(error_body(code, "")), "store.example")
    assert isinstance(error, RemoteStorageAccessError)
    assert error.clocks_differ is differ


def test_region_is_no_advice_for_other_query_errors() -> None:
    document = ErrorDocument.parse(b"<Code>AuthorizationQueryParametersError</Code>")
    assert "s3.region" not in str(classify(400, {}, document, "store.example"))
