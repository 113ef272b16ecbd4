"""What a store's HTTP answer to a ranged GET means. Pure: values in, a length or a RemoteStorageError out.

::

    answer                                               | error
    206, Content-Range and lengths as asked              | none
    206, the object ends inside the range                | RangeNotSatisfiableError
    206, anything else about it wrong; 200; other 2xx    | InvalidStorageResponseError
    200 whose body is an error document                  | as the document's code
    301 302 303 307 308                                  | ForbiddenLocationError: a redirect is never followed
    400 401 403 with the code or text of an expired URL  | LocationExpiredError
    401, 403; 400 AccessDenied or a signature code       | RemoteStorageAccessError
    404 whose code says that the whole bucket is gone    | RemoteStorageUnavailableError
    404, 410, 412                                        | SegmentNotFoundError: gone, or another version
    416                                                  | RangeNotSatisfiableError
    429, 503                                             | RemoteStorageThrottledError
    408, 5xx; 400 RequestTimeout                         | RemoteStorageUnavailableError
    the rest                                             | RemoteStorageError

Stores name expiry differently: S3 403 AccessDenied "Request has expired", GCS 400 ExpiredToken, Azure 403
AuthenticationFailed "Signature not valid in the specified time frame". Of an answer's texts only a code of plain letters is
repeated in a message: S3 puts the signature into the body of SignatureDoesNotMatch.

References: RFC 9110 (sections 10.2.3, 14.4, 15), reliability faults F01-F16.
"""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Protocol

import attrs

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
from kafka_remote_fetchers._byte_range import WantedRange

__all__ = [
    "ACCESS_ADVICE",
    "BUCKET_REGION",
    "ELSEWHERE_CODES",
    "ERROR_BODY_LIMIT",
    "ErrorDocument",
    "Headers",
    "classify",
    "partial_content_length",
]

ERROR_BODY_LIMIT = 16 * 1024

_CODE = re.compile(rb"<Code>([A-Za-z.]{1,64})</Code>")
_EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenExpired"})
_EXPIRED_TEXT = re.compile(
    rb"request has expired|expired token|token (?:has|is) expired|url (?:has|is) expired|"
    rb"not valid in the specified time frame|date is too old",
    re.IGNORECASE,
)
_EARLY_TEXT = re.compile(rb"not valid yet|not yet valid", re.IGNORECASE)
_ACCESS_CODES = frozenset(
    {"AccessDenied", "AuthenticationFailed", "AuthorizationFailure", "InvalidToken", "SignatureDoesNotMatch"}
)
_THROTTLED_CODES = frozenset({"SlowDown", "ServerBusy", "TooManyRequests", "Throttling", "RequestLimitExceeded"})
_UNAVAILABLE_CODES = frozenset({"InternalError", "ServiceUnavailable", "OperationTimedOut", "RequestTimeout"})

_SKEWED = "RequestTimeTooSkewed"
_CLIENT_CLOSED_REQUEST = 499
"""MinIO's status for requests that it drops because it stops."""

ACCESS_ADVICE = "check the credentials and their permissions"
_EARLY_ADVICE = "the signed URL is not valid yet: compare the clocks of the store and of the shim or client that signed it"
_ADVICE = {
    "InvalidAccessKeyId": "check the access key",
    "SignatureDoesNotMatch": "check the secret key",
    _SKEWED: "check this machine's clock",
}
BUCKET_REGION = "x-amz-bucket-region"
"""The header in which S3 names the region of the bucket."""
ELSEWHERE_CODES = frozenset(
    {"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
"""Codes of S3 where the request went to, or was signed for, another region than the bucket's."""
_SIGNED_ELSEWHERE = "AuthorizationQueryParametersError"
"""The same for a signed URL, if the answer has a region; without one the URL has another fault."""
_REGION = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_REGION_ELEMENT = re.compile(rb"<Region>([A-Za-z0-9_-]{1,32})</Region>")
_BUCKET_GONE_CODES = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"})

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)", re.ASCII)
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)
_MAX_RETRY_AFTER = 3600.0


class Headers(Protocol):
    """An answer's headers by name, in any case."""

    def get(self, name: str, default: str, /) -> str:
        """The header's value, the first where there are several."""


@attrs.frozen
class ErrorDocument:
    """What can be told from the front of an error's body. ``code`` is None where there is none to be trusted.

    ``early``: a signed URL is not valid yet. ``region``: of the bucket, as S3 names it.
    """

    code: str | None = None
    expired: bool = False
    early: bool = False
    region: str | None = None

    @classmethod
    def parse(cls, body: bytes) -> ErrorDocument:
        """Takes any bytes. Looks for the texts of S3's XML and does not parse it: there is nothing to gain from more."""
        found = _CODE.search(body)
        code = found[1].decode("ascii") if found else None
        region = _REGION_ELEMENT.search(body)
        expired = code in _EXPIRED_CODES or _EXPIRED_TEXT.search(body) is not None
        early = _EARLY_TEXT.search(body) is not None
        return cls(code, expired, early, region[1].decode("ascii") if region else None)


def classify(status: int, headers: Headers, document: ErrorDocument, host: str) -> RemoteStorageError:
    """The error of an answer that is not 206. ``host`` stands in its message."""
    told = f"{host} answered {status}" + (f" {document.code}" if document.code else "")
    region = _region_advice(headers, document)
    if 300 <= status < 400 and status != HTTPStatus.NOT_MODIFIED:
        return ForbiddenLocationError(f"{told}, and redirects are not followed{region}")
    if status in (400, 401, 403) and document.expired:
        return LocationExpiredError(f"{told}; the signed URL or the credentials have expired")
    if status in (401, 403) or (status == HTTPStatus.BAD_REQUEST and document.code in _ACCESS_CODES):
        advice = _EARLY_ADVICE if document.early else _ADVICE.get(document.code or "", ACCESS_ADVICE)
        clocks_differ = document.early or document.code == _SKEWED
        return RemoteStorageAccessError(f"{told}; {advice}", clocks_differ=clocks_differ)
    if document.code in _BUCKET_GONE_CODES:
        return RemoteStorageUnavailableError(f"{told}; check the bucket in the store's URL")
    if status in (404, 410, 412):
        return SegmentNotFoundError(told)
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return RangeNotSatisfiableError(told)
    if status in (429, 503) or (status == HTTPStatus.OK and document.code in _THROTTLED_CODES):
        return RemoteStorageThrottledError(told, _retry_after(headers))
    if status in (HTTPStatus.REQUEST_TIMEOUT, _CLIENT_CLOSED_REQUEST) or status >= 500 or document.code in _UNAVAILABLE_CODES:
        return RemoteStorageUnavailableError(told)
    if status < 400:
        return InvalidStorageResponseError(f"{told}, which is not an answer to a range request")
    return RemoteStorageError(told + region)


def _region_advice(headers: Headers, document: ErrorDocument) -> str:
    """What to set if the bucket is in another region; the answer may name it."""
    named = headers.get(BUCKET_REGION, "")
    region = named if _REGION.fullmatch(named) else document.region
    if document.code in ELSEWHERE_CODES or (document.code == _SIGNED_ELSEWHERE and document.region is not None):
        return f"; set s3.region to {'' if region is None else f'{region}, '}the region of the bucket"
    return ""


def partial_content_length(headers: Headers, wanted: WantedRange) -> int:
    """The number of bytes in the body of a 206. Raises unless its head promises ``wanted`` exactly, unencoded.

    Raises RangeNotSatisfiableError where the object ends inside the range, else InvalidStorageResponseError.
    """
    if headers.get("Content-Encoding", "identity").lower() not in ("identity", ""):
        raise InvalidStorageResponseError("the store answered with an unexpected Content-Encoding")
    found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if found is None:
        raise InvalidStorageResponseError("the store answered 206 without a single Content-Range")
    start, last = int(found[1]), int(found[2])
    size = None if found[3] == "*" else int(found[3])
    if start != wanted.start or last < start or (size is not None and last >= size):
        raise InvalidStorageResponseError(f"the store returned bytes {start}-{last} instead of {wanted}")
    end = last + 1
    if wanted.end is None:
        complete = size is None or end == size
    elif end < wanted.end and end == size:
        raise RangeNotSatisfiableError(f"the object of {size} bytes ends inside {wanted}")
    else:
        complete = end == wanted.end
    if not complete:
        raise InvalidStorageResponseError(f"the store returned bytes {start}-{last} instead of {wanted}")
    length = end - start
    announced = headers.get("Content-Length", str(length))
    if not _DIGITS.fullmatch(announced) or int(announced) != length:
        raise InvalidStorageResponseError("the store's Content-Length contradicts its Content-Range")
    return length


def _retry_after(headers: Headers) -> float | None:
    """Seconds. A date is counted from the answer's own Date, so that this machine's clock need not agree with the store's."""
    value = headers.get("Retry-After", "").strip()
    if _DIGITS.fullmatch(value):
        seconds = float(value)
    else:
        try:
            seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER)
