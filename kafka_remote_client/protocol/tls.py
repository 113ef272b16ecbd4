"""TLS by librdkafka's own settings: one ``ssl.SSLContext`` out of what a consumer, or a shim's administrator, has configured.

Followed, with librdkafka's meaning and defaults::

    ssl.ca.location, ssl.ca.pem                   whom to trust, both together; neither: what the system trusts
    ssl.crl.location                              certificates that were taken back
    ssl.certificate.location, ssl.key.location    the own certificate (PEM), with ssl.key.password
    ssl.certificate.pem, ssl.key.pem              the same as strings; they win over the files
    ssl.keystore.location, ssl.keystore.password  the same as PKCS#12; wins over both; needs the package "cryptography"
    ssl.endpoint.identification.algorithm         https (default): the name is checked; none: it is not
    enable.ssl.certificate.verification           true (default); false: no certificate or name is checked, with a WARNING
    ssl.cipher.suites                             for TLS 1.2

Any other ``ssl.*`` setting that has a value is refused, because a connection that leaves one out may be weaker than the
application asked for. TLS 1.2 is the oldest version spoken.

Python's ssl reads keys from files only. Key material that is given as a string or unpacked from a keystore is shown to it as a
file that lives in memory; where the system has none, as a file that only its owner can read, removed at once.

References: librdkafka's CONFIGURATION.md; RFC 7292 (PKCS#12).
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError

__all__ = ["client_context", "context_of_protocol", "security_protocol", "server_context"]

_log = logging.getLogger(__name__)

_VERIFY = "enable.ssl.certificate.verification"
_JKS_MAGIC = b"\xfe\xed\xfe\xed"

_FOLLOWED = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.ca.certificate.stores",  # Windows only, and the system's own stores are read there
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
    }
)


def security_protocol(settings: Mapping[str, object]) -> str:
    """``security.protocol`` in lower case, without blanks before it, as librdkafka reads it; "plaintext" when it is not set."""
    return (_text(settings, "security.protocol") or "plaintext").lstrip().lower()


def context_of_protocol(settings: Mapping[str, object]) -> ssl.SSLContext | None:
    """Returns the context of :func:`client_context` if ``security.protocol`` has TLS, else ``None``. Raises as that one."""
    return client_context(settings) if security_protocol(settings).endswith("ssl") else None


def client_context(settings: Mapping[str, object]) -> ssl.SSLContext:
    """What a client verifies and shows. Settings that are not about TLS are passed over.

    Raises ConfigurationError for a setting that cannot be followed, a file that cannot be read, a key that does not fit. No
    message repeats a value other than a path.
    """
    for name in settings:
        if name.startswith(("ssl.", "ssl_")) and name not in _FOLLOWED and _text(settings, name):
            raise ConfigurationError(f"{name} is not supported by direct fetch")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _set_checks(context, settings)
    _trust(context, settings)
    _identify(context, settings)
    ciphers = _text(settings, "ssl.cipher.suites")
    if ciphers:
        with _said("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
    return context


def server_context(
    certificate: Path, key: Path | None = None, *, key_password: str | None = None, client_ca: Path | None = None
) -> ssl.SSLContext:
    """What a server shows: a certificate with its chain, and its key (PEM; ``None`` = in the same file).

    With ``client_ca`` every client has to show a certificate of that authority. Raises ConfigurationError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_chain(context, str(certificate), None if key is None else str(key), key_password, "the listener's certificate")
    if client_ca is not None:
        with _said(f"the clients' authority {client_ca}"):
            context.load_verify_locations(cafile=client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _text(settings: Mapping[str, object], name: str) -> str | None:
    value = settings.get(name)
    return None if value is None or value == "" else str(value)


def _set_checks(context: ssl.SSLContext, settings: Mapping[str, object]) -> None:
    algorithm = (_text(settings, "ssl.endpoint.identification.algorithm") or "https").lower()
    if algorithm not in ("https", "none"):
        raise ConfigurationError("ssl.endpoint.identification.algorithm must be https or none")
    verifies = _verifies(settings)
    if not verifies:
        _log.warning(
            "%s=false: the certificates of brokers and of the shim are not verified; any host can impersonate them", _VERIFY
        )
    context.check_hostname = verifies and algorithm == "https"
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE


def _verifies(settings: Mapping[str, object]) -> bool:
    return arguments.true_or_false(_text(settings, _VERIFY) or "true", _VERIFY)


def _trust(context: ssl.SSLContext, settings: Mapping[str, object]) -> None:
    location, pem, revoked = (_text(settings, name) for name in ("ssl.ca.location", "ssl.ca.pem", "ssl.crl.location"))
    if location == "probe":
        location = None
    if location is not None:
        is_directory = Path(location).is_dir()
        with _said(f"ssl.ca.location {location}"):
            context.load_verify_locations(None if is_directory else location, location if is_directory else None)
    if pem is not None:
        with _said("ssl.ca.pem"):
            context.load_verify_locations(cadata=pem)
    if location is None and pem is None:
        context.load_default_certs()
    if revoked is not None:
        with _said(f"ssl.crl.location {revoked}"):
            context.load_verify_locations(cafile=revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _identify(context: ssl.SSLContext, settings: Mapping[str, object]) -> None:
    password = _text(settings, "ssl.key.password")
    keystore = _text(settings, "ssl.keystore.location")
    if keystore is not None:
        pem = _unpacked(Path(keystore), _text(settings, "ssl.keystore.password"))
        with _shown_as_file(pem) as path:
            _load_chain(context, path, None, None, "ssl.keystore.location")
        return
    with contextlib.ExitStack() as shown:
        files: dict[str, str | None] = {}
        for part in ("certificate", "key"):
            pem_text = _text(settings, f"ssl.{part}.pem")
            files[part] = (
                _text(settings, f"ssl.{part}.location")
                if pem_text is None
                else shown.enter_context(_shown_as_file(pem_text.encode()))
            )
        certificate, key = files["certificate"], files["key"]
        if certificate is not None:
            _load_chain(context, certificate, key, password, "ssl.certificate.* and ssl.key.*")
        elif key is not None:
            raise ConfigurationError("ssl.key.* is set without ssl.certificate.*")


def _load_chain(context: ssl.SSLContext, certificate: str, key: str | None, password: str | None, what: str) -> None:
    with _said(what):
        # A function always: without one OpenSSL asks for the password on the terminal.
        context.load_cert_chain(certificate, key, lambda: password or "")


def _unpacked(keystore: Path, password: str | None) -> bytes:
    """A PKCS#12 keystore's key, certificate and chain as PEM."""
    with _said(f"ssl.keystore.location {keystore}"):
        data = keystore.read_bytes()
    if data.startswith(_JKS_MAGIC):
        raise ConfigurationError(f"ssl.keystore.location {keystore} is a JKS keystore; convert it to PKCS#12")
    try:
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an extra that most do without
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        raise ConfigurationError("ssl.keystore.location needs cryptography: install kafka-remote-client[tls]") from None
    try:
        stored = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except Exception:  # noqa: BLE001 - cryptography names no set of errors, and their texts may repeat the content
        raise ConfigurationError(f"ssl.keystore.location {keystore} is damaged or the password is wrong") from None
    if stored.key is None or stored.cert is None:
        raise ConfigurationError(f"ssl.keystore.location {keystore} contains no private key with a certificate")
    key = stored.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = (stored.cert, *stored.additional_certs)
    return key + b"".join(entry.certificate.public_bytes(Encoding.PEM) for entry in chain)


@contextlib.contextmanager
def _shown_as_file(data: bytes) -> Iterator[str]:
    """A path under which ``data`` can be read by this process, for as long as the context lasts."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(number, data)
            yield f"/proc/self/fd/{number}"
        finally:
            os.close(number)
        return
    with tempfile.NamedTemporaryFile(prefix="kafka-remote-") as file:  # made with mode 600
        file.write(data)
        file.flush()
        yield file.name


@contextlib.contextmanager
def _said(what: str) -> Iterator[None]:
    """Turns a failure into one that names the setting and repeats nothing of a file's content."""
    try:
        yield
    except ssl.SSLError as error:
        reason = (getattr(error, "reason", None) or "invalid contents").replace("_", " ").lower()
        raise ConfigurationError(f"{what} cannot be used: {reason}") from None
    except (OSError, TypeError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "invalid contents"
        raise ConfigurationError(f"{what} cannot be used: {reason}") from None
