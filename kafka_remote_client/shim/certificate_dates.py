"""The dates of the certificate that the shim shows. Python's ssl has no function for those of an own certificate.

References: RFC 5280, section 4.1.2.5.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import attrs

__all__ = ["CertificateDates", "certificate_dates"]


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


def certificate_dates(path: str | None) -> CertificateDates | None:
    """The dates of the first certificate in a PEM file, which is the shim's own.

    ``None`` without a file, if they cannot be read, or if the package cryptography is not installed.
    """
    if path is None:
        return None
    try:
        from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    try:
        found = load_pem_x509_certificate(Path(path).read_bytes())
    except (OSError, ValueError):
        return None
    return CertificateDates(found.not_valid_before_utc, found.not_valid_after_utc)


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
