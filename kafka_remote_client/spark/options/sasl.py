"""Java's SASL settings in librdkafka's terms: PLAIN, SCRAM and OAUTHBEARER, each by ``sasl.jaas.config``. Pure.

::

    Java                                                 | librdkafka
    PlainLoginModule, ScramLoginModule                   | sasl.username, sasl.password
    OAuthBearerLoginModule with Kafka's own              | sasl.oauthbearer.method=oidc, .client.id, .client.secret,
      OAuthBearerLoginCallbackHandler                    |   .scope, .extensions, .token.endpoint.url
    the same with unsecuredLoginStringClaim_sub alone    | enable.sasl.oauthbearer.unsecure.jwt, sasl.oauthbearer.config

References: Kafka's SaslConfigs, KIP-255, KIP-768 (OIDC).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client.spark.options.client_options import refused
from kafka_remote_client.spark.options.jaas import LoginModule, parse_jaas

__all__ = ["translate_sasl"]

_MECHANISMS = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_OIDC_HANDLER = "OAuthBearerLoginCallbackHandler"
_OIDC_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_SUBJECT = "unsecuredLoginStringClaim_sub"
_LIFETIME = "unsecuredLoginLifetimeSeconds"
_EXTENSION = "extension_"


def translate_sasl(rest: dict[str, str], *, needed: bool) -> dict[str, str]:
    """Takes ``sasl.*`` out of ``rest``. Returns librdkafka's settings. ``needed``: security.protocol requires SASL.

    Raises ConfigurationError, which names the setting and never shows its value.
    """
    mechanism = rest.pop("sasl.mechanism", None)
    jaas = rest.pop("sasl.jaas.config", None)
    oauth = {key: rest.pop(key) for key in list(rest) if key.startswith("sasl.oauthbearer.")}
    handler = rest.pop("sasl.login.callback.handler.class", None)
    if mechanism is None:
        if needed:
            raise refused(
                "sasl.mechanism", "is not set, and Java's default is Kerberos: set PLAIN, SCRAM-SHA-256/512 or OAUTHBEARER"
            )
        return {}
    if mechanism not in _MECHANISMS:
        raise refused("sasl.mechanism", f"must be one of {', '.join(_MECHANISMS)}")
    if jaas is None:
        raise refused("sasl.jaas.config", "must be set; a JAAS file of the JVM is not read")
    module = parse_jaas(jaas)
    if module.name != _MECHANISMS[mechanism]:
        raise refused("sasl.jaas.config", f"must name {_MECHANISMS[mechanism]} for sasl.mechanism={mechanism}")
    settings = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return settings | _oauthbearer(module, oauth, handler)
    if handler is not None:
        raise refused(
            "sasl.login.callback.handler.class",
            "is a Java class and is not supported; put username and password into sasl.jaas.config",
        )
    return settings | _password(module)


def _password(module: LoginModule) -> dict[str, str]:
    unknown = module.options.keys() - {"username", "password"}
    if unknown:
        raise refused("sasl.jaas.config", f"has options that are not supported: {', '.join(sorted(unknown))}")
    if not {"username", "password"} <= module.options.keys():
        raise refused("sasl.jaas.config", "must give username and password")
    return {"sasl.username": module.options["username"], "sasl.password": module.options["password"]}


def _oauthbearer(module: LoginModule, oauth: Mapping[str, str], handler: str | None) -> dict[str, str]:
    options = dict(module.options)
    if handler is None:
        return _unsecured(options, oauth)
    package, _, name = handler.rpartition(".")
    if name != _OIDC_HANDLER or not f"{package}.".endswith((_OIDC_PACKAGE, f"{_OIDC_PACKAGE}secured.")):
        raise refused(
            "sasl.login.callback.handler.class", f"is a Java class and is not supported; only {_OIDC_PACKAGE}{_OIDC_HANDLER} is"
        )
    given = {key.removeprefix("sasl.oauthbearer."): value for key, value in oauth.items()}
    extensions = {key: options.pop(key) for key in list(options) if key.startswith(_EXTENSION)}
    settings = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": given.pop("token.endpoint.url", ""),
        "sasl.oauthbearer.client.id": given.pop("client.credentials.client.id", "") or options.pop("clientId", ""),
        "sasl.oauthbearer.client.secret": given.pop("client.credentials.client.secret", "") or options.pop("clientSecret", ""),
    }
    if not all(settings.values()):
        raise refused("sasl.jaas.config", "must give clientId and clientSecret, and sasl.oauthbearer.token.endpoint.url be set")
    scope = given.pop("scope", "") or options.pop("scope", "")
    if scope:
        settings["sasl.oauthbearer.scope"] = scope
    if extensions:
        settings["sasl.oauthbearer.extensions"] = ",".join(f"{k.removeprefix(_EXTENSION)}={v}" for k, v in extensions.items())
    left = sorted([*options, *(f"sasl.oauthbearer.{key}" for key in given)])
    if left:
        raise refused("sasl.jaas.config", f"with OAUTHBEARER has options that are not supported: {', '.join(left)}")
    return settings


def _unsecured(options: dict[str, str], oauth: Mapping[str, str]) -> dict[str, str]:
    subject = options.pop(_SUBJECT, "")
    lifetime = options.pop(_LIFETIME, "")
    if not subject or options or oauth or not set(subject + lifetime).isdisjoint(' ,"'):
        raise refused(
            "sasl.login.callback.handler.class",
            f"must be {_OIDC_PACKAGE}{_OIDC_HANDLER} with OAUTHBEARER, unless sasl.jaas.config gives {_SUBJECT} alone",
        )
    config = f"principal={subject}" + (f" lifeSeconds={lifetime}" if lifetime else "")
    return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": config}
