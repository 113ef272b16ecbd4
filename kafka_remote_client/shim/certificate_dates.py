"""The dates of the certificate that the shim shows. Python's ssl has no function for those of an own certificate.

::

    Certificate     SEQUENCE
      tbs           SEQUENCE
        version     [0], may be missing
        serial      INTEGER
        signature   SEQUENCE
        issuer      SEQUENCE
        validity    SEQUENCE
          notBefore UTCTime or GeneralizedTime
          notAfter  UTCTime or GeneralizedTime

References: RFC 5280, sections 4.1 and 4.1.2.5; X.690 (DER).
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime
from pathlib import Path

import attrs

__all__ = ["CertificateDates", "certificate_dates"]

_FIRST = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0xA0, 0x17, 0x18
_FORMS = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}
_BEFORE_VALIDITY = 3
"""Elements between version and validity."""
_LONG = 0x80


@attrs.frozen
class CertificateDates:
    """Both in UTC."""

    begins: datetime
    ends: datetime

    def problem(self, now_ms: int) -> str | None:
        """Why clients refuse the certificate at a Unix time in milliseconds."""
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        if now >= self.ends:
            return f"the listener's certificate expired at {_text(self.ends)}"
        return f"the listener's certificate is not valid before {_text(self.begins)}" if now < self.begins else None


def certificate_dates(path: str) -> CertificateDates | None:
    """The dates of the first certificate in a PEM file, which is the shim's own. ``None`` if they cannot be read."""
    try:
        found = _FIRST.search(Path(path).read_text(encoding="ascii", errors="replace"))
        return None if found is None else _dates(ssl.PEM_cert_to_DER_cert(found[0]))
    except (OSError, ValueError, IndexError, KeyError):
        return None


def _dates(der: bytes) -> CertificateDates:
    at = _inside(der, _inside(der, 0))
    if der[at] == _VERSION:
        at = _behind(der, at)
    for _ in range(_BEFORE_VALIDITY):
        at = _behind(der, at)
    begins = _inside(der, at)
    return CertificateDates(_time(der, begins), _time(der, _behind(der, begins)))


def _time(der: bytes, at: int) -> datetime:
    text = der[_inside(der, at) : _behind(der, at)].decode("ascii")
    return datetime.strptime(text, _FORMS[der[at]]).replace(tzinfo=UTC)


def _inside(der: bytes, at: int) -> int:
    """Where the content of the element begins."""
    return at + 2 + (der[at + 1] & ~_LONG if der[at + 1] & _LONG else 0)


def _behind(der: bytes, at: int) -> int:
    """Where the element ends."""
    begins = _inside(der, at)
    size = int.from_bytes(der[at + 2 : begins], "big") if der[at + 1] & _LONG else der[at + 1]
    return begins + size


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
