"""Certificates made during a test: certificate authorities, and certificates for chosen names and times."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

__all__ = ["Authority", "Issued"]

_YEAR = dt.timedelta(days=365)
_LOOPBACK = ("localhost", "127.0.0.1")


@attrs.frozen
class Issued:
    """A certificate with its key, as PEM."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def write(self, path: Path, password: str | None = None) -> Path:
        """Key and certificate in one file, the format of Kafka's PEM keystores and of Python."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def keystore(self, password: str | None = None) -> bytes:
        """Returns the certificate and key as PKCS#12."""
        return pkcs12.serialize_key_and_certificates(b"me", self.key, self.certificate, None, _encryption(password))


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "Test authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(*([False] * 5), key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False)
        builder = self._builder(self._name, key.public_key(), -_YEAR, _YEAR, x509.BasicConstraints(ca=True, path_length=None))
        self._issued = Issued(key, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()))

    @property
    def pem(self) -> str:
        return self._issued.certificate_pem

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def issue(self, *names: str, expired: bool = False, common_name: str = "test") -> Issued:
        """Issues a certificate for those names and addresses; by default for loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        start, end = (-2 * _YEAR, -_YEAR / 2) if expired else (-_YEAR / 2, _YEAR / 2)
        constraints = x509.BasicConstraints(ca=False, path_length=None)
        builder = self._builder(_name(common_name), key.public_key(), start, end, constraints)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_subject(name) for name in names or _LOOPBACK]), critical=False
        )
        return Issued(key, builder.sign(self._issued.key, hashes.SHA256()))

    def revoke(self, *issued: Issued) -> str:
        """The revocation list, as PEM."""
        now = _now()
        builder = (
            x509.CertificateRevocationListBuilder().issuer_name(self._name).last_update(now - _YEAR).next_update(now + _YEAR)
        )
        for one in issued:
            entry = x509.RevokedCertificateBuilder().serial_number(one.certificate.serial_number).revocation_date(now - _YEAR)
            builder = builder.add_revoked_certificate(entry.build())
        return builder.sign(self._issued.key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()

    def _builder(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        start: dt.timedelta,
        end: dt.timedelta,
        constraints: x509.BasicConstraints,
    ) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(_now() + start).not_valid_after(_now() + end)
        return builder.add_extension(constraints, critical=True)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _subject(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())
