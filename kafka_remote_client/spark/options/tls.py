"""Java's TLS settings in librdkafka's terms: PEM and PKCS#12 stores. Pure.

::

    Java                                          | librdkafka
    trust store PEM: a file, or the text itself   | ssl.ca.location, ssl.ca.pem
    trust store PKCS12                            | a TrustStore, read where it is used
    key store PEM: a file, or the text itself     | ssl.certificate.location and ssl.key.location, or the same with .pem
    key store PKCS12                              | ssl.keystore.location, ssl.keystore.password

A store without a type is JKS to Java, which only Java can read.

References: Kafka's SslConfigs, KIP-651 (PEM).
"""

from __future__ import annotations

from pathlib import Path

from kafka_remote_client.spark.options.client_options import TrustStore, refused

__all__ = ["translate_tls"]

_MODERN_TLS = frozenset({"TLSv1.2", "TLSv1.3"})
_JKS_ADVICE = "a JKS store cannot be read; export it as PEM or PKCS12 and set kafka.{}.type=PEM or PKCS12"


def translate_tls(rest: dict[str, str], settings: dict[str, str]) -> TrustStore | None:
    """Takes ``ssl.*`` out of ``rest`` and adds librdkafka's settings to ``settings``. Returns a PKCS#12 trust store, if any.

    Raises ConfigurationError, which names the setting and never shows its value.
    """
    named = rest.pop("ssl.endpoint.identification.algorithm", None)
    if named is not None:
        if named.lower() not in {"", "https"}:
            raise refused("ssl.endpoint.identification.algorithm", "must be https or empty")
        settings["ssl.endpoint.identification.algorithm"] = named.lower() or "none"
    _check_versions(rest)
    trust_store = _trust_store(rest, settings)
    _key_store(rest, settings)
    return trust_store


def _check_versions(rest: dict[str, str]) -> None:
    """OpenSSL supports TLS 1.2 and 1.3. If both are enabled, no setting is needed; otherwise the others are disabled."""
    enabled = rest.pop("ssl.enabled.protocols", None)
    if enabled is not None and {name.strip() for name in enabled.split(",")} != _MODERN_TLS:
        raise refused("ssl.enabled.protocols", "must be TLSv1.2,TLSv1.3, the versions that this client supports")
    if rest.pop("ssl.protocol", "TLS") not in {"TLS", *_MODERN_TLS}:
        raise refused("ssl.protocol", "must be TLSv1.3, TLSv1.2 or TLS")


def _store_type(rest: dict[str, str], store: str) -> str:
    kind = rest.pop(f"{store}.type", "JKS").upper()
    if kind == "JKS":
        raise refused(f"{store}.location", f"is not supported: {_JKS_ADVICE.format(store)}")
    if kind not in {"PEM", "PKCS12"}:
        raise refused(f"{store}.type", "must be PEM or PKCS12")
    return kind


def _trust_store(rest: dict[str, str], settings: dict[str, str]) -> TrustStore | None:
    store = "ssl.truststore"
    location, certificates = rest.pop(f"{store}.location", None), rest.pop(f"{store}.certificates", None)
    password = rest.pop(f"{store}.password", None)
    if location is None and certificates is None:
        rest.pop(f"{store}.type", None)
        return None
    kind = _store_type(rest, store)
    if kind == "PKCS12":
        if location is None or certificates is not None:
            raise refused(f"{store}.certificates", "is for PEM stores; for a PKCS12 store set only ssl.truststore.location")
        return TrustStore(Path(location), password)
    _one_of(store, location, certificates, "certificates")
    if password is not None:
        raise refused(f"{store}.password", "must not be set for a PEM store")
    settings["ssl.ca.pem" if location is None else "ssl.ca.location"] = certificates or location or ""
    return None


def _key_store(rest: dict[str, str], settings: dict[str, str]) -> None:
    store = "ssl.keystore"
    location, key = rest.pop(f"{store}.location", None), rest.pop(f"{store}.key", None)
    chain, password = rest.pop(f"{store}.certificate.chain", None), rest.pop(f"{store}.password", None)
    key_password = rest.pop("ssl.key.password", None)
    if location is None and key is None and chain is None:
        rest.pop(f"{store}.type", None)
        return
    kind = _store_type(rest, store)
    if kind == "PKCS12":
        if location is None or key is not None or chain is not None:
            raise refused(f"{store}.key", "is for PEM stores; for a PKCS12 store set only ssl.keystore.location")
        if key_password not in {None, password}:
            raise refused("ssl.key.password", "must be the password of the PKCS12 store")
        settings["ssl.keystore.location"] = location
        settings |= {} if password is None else {"ssl.keystore.password": password}
        return
    _one_of(store, location, key if chain is not None else None, "key and ssl.keystore.certificate.chain")
    if password is not None:
        raise refused(f"{store}.password", "must not be set for a PEM store; its key has ssl.key.password")
    if location is not None:
        settings |= {"ssl.certificate.location": location, "ssl.key.location": location}
    else:
        settings |= {"ssl.certificate.pem": chain or "", "ssl.key.pem": key or ""}
    settings |= {} if key_password is None else {"ssl.key.password": key_password}


def _one_of(store: str, location: str | None, text: str | None, texts_name: str) -> None:
    if (location is None) == (text is None):
        raise refused(f"{store}.location", f"and kafka.{store}.{texts_name}: set one of the two")
