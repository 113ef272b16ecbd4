"""F01-F16: the store's answer is not the requested range."""

from __future__ import annotations

from kafka_remote_client.testing import Answer, error, gzipped, multipart, other_bytes, redirect
from tests.faults.bench import BUCKET, Rig
from tests.faults.scenario import ALL, Table

__all__ = ["STORE_ANSWERS"]

_HOUR_MS = 3_600_000
_table = Table()
STORE_ANSWERS = _table.scenarios


# -- URLs and credentials that are no longer valid --------------------------------------------------------------------------


def _clock_ahead(rig: Rig) -> None:
    rig.bench.store_clock.shift_ms = _HOUR_MS


def _expired(rig: Rig) -> None:
    """The store's clock is far ahead of the signer's, so every URL has expired before its use."""
    _clock_ahead(rig)
    rig.proofs.append(lambda: [e for e in rig.origin.exchanges if e.status == 403])


def _expires_at(number: int, *, signer_follows: bool) -> object:
    def inject(rig: Rig) -> None:
        def ahead() -> None:
            _clock_ahead(rig)
            if signer_follows:
                rig.signer.clock.shift_ms = _HOUR_MS

        if signer_follows:
            rig.stack.callback(setattr, rig.signer.clock, "shift_ms", 0)
        rig.at_request(number, ahead)
        rig.proofs.append(lambda: [e for e in rig.origin.exchanges if e.status == 403])

    return inject


def _expires_on_resume(rig: Rig) -> None:
    rig.stack.callback(setattr, rig.signer.clock, "shift_ms", 0)

    def ahead() -> None:
        _clock_ahead(rig)
        rig.signer.clock.shift_ms = _HOUR_MS

    rest = rig.cut_short()
    rig.when(rest, ahead)
    rig.proofs.append(lambda: [e for e in rig.origin.exchanges if e.status == 403 and rest(e.request)])


def _refused_on_resume(answer: Answer) -> object:
    return lambda rig: rig.answers(answer, times=1, to=rig.cut_short())


_PRESIGNED = {"kinds": ("presigned",)}
_table.add("expired-at-start", "F01", _expired, "expired", **_PRESIGNED)
for number in (1, 3, 8):
    _table.add(f"expires-at-{number}", "F02", _expires_at(number, signer_follows=True), heals=True, **_PRESIGNED)
    _table.add(f"expired-from-{number}", "F02", _expires_at(number, signer_follows=False), "expired", **_PRESIGNED)
_table.add("expires-on-resume", "F03", _expires_on_resume, heals=True, **_PRESIGNED)
_FORMS = {
    "s3": error(403, "AccessDenied", "Request has expired"),
    "gcs": error(400, "ExpiredToken", "The provided token has expired."),
    "azure": error(403, "AuthenticationFailed", "Signature not valid in the specified time frame"),
}
for form, answer in _FORMS.items():
    _table.answers(f"expired-{form}", "F01", answer, "expired access-denied", later="F02")
    _table.add(
        f"expired-{form}-on-resume",
        "F03",
        _refused_on_resume(answer),
        "expired",
        heals=True,
    )


def _damaged_signature(rig: Rig) -> None:
    rig.signer.change = lambda url: url[:-1] + ("0" if url[-1] != "0" else "1")
    rig.proofs.append(lambda: [e for e in rig.origin.exchanges if e.status == 403])


def _rotated_at(number: int, *, signer_follows: bool) -> object:
    def inject(rig: Rig) -> None:
        other = b"the secret that came after it ..."

        def rotate() -> None:
            rig.origin.use_secret(other)
            if signer_follows:
                rig.signer.secret = other

        rig.at_request(number, rotate)
        rig.proofs.append(lambda: [e for e in rig.origin.exchanges if e.status == 403])

    return inject


_table.add("signature-damaged", "F04", _damaged_signature, "access-denied", **_PRESIGNED)
_table.answers("signature-mismatch", "F04", error(403, "SignatureDoesNotMatch"), "access-denied")
for number in (1, 6):
    _table.add(f"secret-replaced-at-{number}", "F05", _rotated_at(number, signer_follows=True), heals=True, **_PRESIGNED)
    _table.add(f"secret-revoked-at-{number}", "F05", _rotated_at(number, signer_follows=False), "access-denied", **_PRESIGNED)
_table.answers("key-unknown", "F05", error(403, "InvalidAccessKeyId"), "access-denied")
_table.answers("unauthorized", "F05", error(401), "access-denied")


# -- objects that are not what the metadata says ----------------------------------------------------------------------------


def _objects_gone_at(number: int) -> object:
    return lambda rig: rig.at_request(number, rig.origin.objects.clear)


def _gone(*segments: int) -> object:
    def inject(rig: Rig) -> None:
        for segment in segments:
            rig.replace(segment, lambda _: None)

    return inject


def _shorter(segment: int, size: int) -> object:
    return lambda rig: rig.replace(segment, lambda log: log[:size])


for number in (1, 5):
    _table.add(f"deleted-at-{number}", "F06", _objects_gone_at(number), "not-found")
_table.add("deleted-first", "F06", _gone(0), "not-found", kinds=ALL)
_table.add("deleted-middle", "F06", _gone(2), "not-found", kinds=ALL)
_table.add("deleted-all", "F06", _gone(0, 1, 2, 3, 4), "not-found", kinds=ALL)
_table.answers("not-found", "F06 F07", error(404, "NoSuchKey"), "not-found")
_table.answers("gone", "F06", error(410), "not-found")
_table.answers("other-version", "F07", error(412, "PreconditionFailed"), "not-found")
_table.answers("bucket-gone", "F07", error(404, "NoSuchBucket"), "unavailable")
_table.answers("denied", "F07", error(403, "AccessDenied", "Access Denied"), "access-denied")
_table.answers("unsatisfiable", "F08", error(416, "InvalidRange"), "range-not-satisfiable")
for size in (0, 1, 61, 700, 1500):
    causes = "range-not-satisfiable unavailable corrupt"
    _table.add(f"cut-to-{size}", "F08", _shorter(1, size), causes, kinds=ALL)


# -- a store in trouble -----------------------------------------------------------------------------------------------------

for status in (408, 500, 502, 504):
    _table.answers(f"status-{status}", "F09", error(status), "unavailable")
_table.answers("internal-error", "F09", error(500, "InternalError"), "unavailable")
_table.answers("slow-down", "F10", error(503, "SlowDown", Retry_After="0"), "throttled")
_table.answers("service-unavailable", "F10", error(503), "throttled")
_table.answers("too-many-requests", "F10", error(429, Retry_After="0"), "throttled")
_table.answers("200-internal-error", "F11", error(200, "InternalError"), "unavailable")
_table.answers("200-slow-down", "F11", error(200, "SlowDown"), "throttled")


# -- answers of another request ---------------------------------------------------------------------------------------------


def _redirected(status: int, *, elsewhere: bool) -> object:
    def inject(rig: Rig) -> None:
        if elsewhere:
            trap = rig.bench.origins["s3" if rig.kind == "presigned" else "presigned"]
            rig.proofs.append(lambda: not trap.exchanges)
            target = f"{trap.url}/{BUCKET}/{rig.stream.keys[0]}"
        else:
            target = rig.origin.url_for(rig.stream.keys[0])
        rig.answers(redirect(target, status), after=3)

    return inject


for status in (301, 302, 307):
    for elsewhere in (True, False):
        name = f"redirect-{status}-{'elsewhere' if elsewhere else 'same-host'}"
        _table.add(name, "F12", _redirected(status, elsewhere=elsewhere), "forbidden-location")


def _whole(rig: Rig) -> None:
    rig.answers(Answer(status=200, headers={"Content-Range": None}, body=rig.stream.logs[rig.stream.keys[1]]))


_WRONG = "invalid-response"
_table.add("whole-object", "F13", _whole, _WRONG)
_table.answers("range-ignored", "F13", Answer(status=200, headers={"Content-Range": None}), _WRONG)
_table.answers("no-content-range", "F14", Answer(headers={"Content-Range": None}), _WRONG)
_table.answers("wrong-content-range", "F14", Answer(headers={"Content-Range": "bytes 1-10/99999"}), _WRONG)
_table.answers(
    "two-content-ranges", "F14", Answer(headers={"Content-Range": "bytes 0-9/99\r\nContent-Range: bytes 5-14/99"}), _WRONG
)
_table.answers("malformed-content-range", "F14", Answer(headers={"Content-Range": "bytes x-y/z"}), _WRONG)
_table.answers("fewer-bytes", "F15", Answer(transform=lambda data: data[:-1]), _WRONG)
_table.answers("more-bytes", "F15", Answer(transform=lambda data: data + b"x"), _WRONG)
_table.answers("more-bytes-chunked", "F15", Answer(transform=lambda data: data + b"x", chunked=True), _WRONG)
_table.answers("no-bytes", "F15", other_bytes(b""), _WRONG)
_table.answers("multipart", "F15", multipart(), _WRONG)
_table.answers("gzip", "F16", gzipped(), _WRONG)
