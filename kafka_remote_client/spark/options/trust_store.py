"""PKCS#12 trust stores as PEM, the format of librdkafka and OpenSSL. Driver and tasks read the file.

References: RFC 7292.
"""

from __future__ import annotations

from kafka_remote_client.errors import ConfigurationError, missing_extra
from kafka_remote_client.spark.options.client_options import ClientOptions, TrustStore, refused

__all__ = ["librdkafka_settings"]


def librdkafka_settings(client: ClientOptions) -> dict[str, str]:
    """librdkafka's settings, with the certificates of a PKCS#12 trust store among them.

    Raises ConfigurationError when the file cannot be read or contains no certificate; MissingExtraError.
    """
    settings = dict(client.settings)
    if client.trust_store is not None:
        settings["ssl.ca.pem"] = _pem(client.trust_store)
    return settings


def _pem(store: TrustStore) -> str:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, pkcs12  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise missing_extra("a PKCS#12 trust store", error, "tls") from None
    password = None if store.password is None else store.password.encode()
    try:
        loaded = pkcs12.load_pkcs12(store.location.read_bytes(), password)
    except OSError as error:
        raise _refused(f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise _refused("is not a PKCS#12 file or the password is wrong") from None
    certificates = [found.certificate for found in (loaded.cert, *loaded.additional_certs) if found is not None]
    if not certificates:
        raise _refused("contains no certificate")
    return "".join(certificate.public_bytes(Encoding.PEM).decode("ascii") for certificate in certificates)


def _refused(what: str) -> ConfigurationError:
    return refused("ssl.truststore.location", what)
