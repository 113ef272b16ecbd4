from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafka_remote_client.shim.certificate_dates import CertificateDates, certificate_dates
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.certificates import Authority

DATES = CertificateDates(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize("expired", [False, True])
def test_dates_are_those_of_the_first_certificate(tmp_path: Path, expired: bool) -> None:
    authority = Authority()
    issued = authority.issue(expired=expired)
    chain = issued.write(tmp_path / "shim.pem")
    chain.write_text(chain.read_text() + authority.pem)
    begins, ends = issued.certificate.not_valid_before_utc, issued.certificate.not_valid_after_utc
    assert certificate_dates(str(chain)) == CertificateDates(begins, ends)


@pytest.mark.parametrize("size", range(0, 120, 7))
def test_a_damaged_certificate_has_no_dates(tmp_path: Path, size: int) -> None:
    body = Authority().issue().certificate_pem.splitlines()[1:-1]
    cut = "\n".join(["-----BEGIN CERTIFICATE-----", "".join(body)[: 4 * (size // 4)], "-----END CERTIFICATE-----"])
    (tmp_path / "shim.pem").write_text(cut)
    assert certificate_dates(str(tmp_path / "shim.pem")) is None
    assert certificate_dates(str(tmp_path / "none.pem")) is None


def test_there_are_no_dates_without_cryptography(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Authority().issue().write(tmp_path / "shim.pem")
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    assert certificate_dates(str(path)) is None


@pytest.mark.parametrize(
    ("day", "problem"),
    [
        (datetime(2025, 12, 31, tzinfo=UTC), "the listener's certificate is not valid before 2026-01-01T00:00:00Z"),
        (datetime(2026, 1, 1, tzinfo=UTC), None),
        (datetime(2026, 3, 1, tzinfo=UTC), "the listener's certificate expired at 2026-03-01T00:00:00Z"),
    ],
)
def test_clients_refuse_it_before_and_after_its_time(day: datetime, problem: str | None) -> None:
    assert DATES.problem(int(day.timestamp() * 1000)) == problem


def test_a_shim_tells_when_its_certificate_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    issued = Authority().issue(expired=True)
    with Shim(ShimConfig("127.0.0.1:1", ssl_certificate=str(issued.write(tmp_path / "shim.pem")))) as shim:
        ends = int(issued.certificate.not_valid_after_utc.timestamp())
        assert shim.metrics()["certificate_expiry_timestamp_seconds"] == ends
    assert "clients that verify it cannot connect" in caplog.text
