"""Java's security settings in librdkafka's terms. Pure.

JKS stores, callback classes, login classes and engine factories run Java code, so they are errors. No security setting is
skipped silently: unknown settings are errors too; only tuning is ignored.

References: Kafka's CommonClientConfigs, SaslConfigs, SslConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kafka_remote_client.spark.options.client_options import TrustStore, refused
from kafka_remote_client.spark.options.sasl import translate_sasl
from kafka_remote_client.spark.options.tls import translate_tls

__all__ = ["IGNORED", "REFUSED", "SECURITY_PREFIXES", "SecuritySettings", "translate_security"]

SECURITY_PREFIXES = ("sasl.", "ssl.", "security.")

_PROTOCOLS = frozenset({"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"})

IGNORED = frozenset(
    {
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "ssl.secure.random.implementation",
    }
)
"""Tuning: without it a connection is as safe as with it."""

REFUSED = {
    "sasl.client.callback.handler.class": "no Java classes; use PLAIN, SCRAM or OAUTHBEARER with sasl.jaas.config",
    "sasl.login.class": "no Java classes; use PLAIN, SCRAM or OAUTHBEARER with sasl.jaas.config",
    "sasl.kerberos.service.name": "Kerberos is not supported; use PLAIN, SCRAM or OAUTHBEARER",
    "security.providers": "no Java classes; TLS is OpenSSL's",
    "ssl.cipher.suites": "set librdkafka's own instead: remote.librdkafka.ssl.cipher.suites, with OpenSSL's names",
    "ssl.engine.factory.class": "no Java classes; use PEM or PKCS12 stores",
    "ssl.keymanager.algorithm": "no Java classes; TLS is OpenSSL's",
    "ssl.provider": "no Java classes; TLS is OpenSSL's",
    "ssl.trustmanager.algorithm": "no Java classes; TLS is OpenSSL's",
}


@attrs.frozen
class SecuritySettings:
    """``settings`` are librdkafka's (values redacted); ``ignored`` are the Java names of ignored settings."""

    settings: dict[str, str] = attrs.field(repr=lambda settings: f"<{len(settings)} settings>")
    trust_store: TrustStore | None = None
    ignored: tuple[str, ...] = ()


def translate_security(java: Mapping[str, str]) -> SecuritySettings:
    """``java``: the settings whose names begin as SECURITY_PREFIXES say, without ``kafka.``.

    Raises ConfigurationError, which names the setting and never shows its value.
    """
    rest = {key: value.strip() for key, value in java.items()}
    ignored = tuple(sorted(rest.keys() & IGNORED))
    for key in ignored:
        del rest[key]
    for key in sorted(rest.keys() & REFUSED.keys()):
        raise refused(key, f"is not supported: {REFUSED[key]}")
    settings: dict[str, str] = {}
    protocol = rest.pop("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise refused("security.protocol", f"must be one of {', '.join(sorted(_PROTOCOLS))}")
    if protocol != "plaintext":
        settings["security.protocol"] = protocol
    # Settings are also checked without TLS or SASL, because an error there is an error too.
    sasl = translate_sasl(rest, needed=protocol.startswith("sasl_"))
    trust_store = translate_tls(rest, settings)
    for key in sorted(rest):
        raise refused(key, "is a security setting that is not supported; remove it")
    return SecuritySettings(settings | sasl, trust_store, ignored)
