"""The result of the ``kafka.*`` options for this client: librdkafka's settings, and settings outside of librdkafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import attrs

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import IsolationLevel

__all__ = ["ClientOptions", "TrustStore", "refused", "whole_number"]

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT64 = range(-(2**63), 2**63)


@attrs.frozen
class TrustStore:
    """A PKCS#12 file with certificates to trust. librdkafka cannot read one, so it is turned into PEM where it is used."""

    location: Path
    password: str | None = attrs.field(default=None, repr=lambda password: "None" if password is None else "<redacted>")


@attrs.frozen
class ClientOptions:
    """``settings`` are librdkafka's and hold secrets; their values are in no ``repr``.

    ``ignored`` are the options without a counterpart here, as they were given.
    ``api_timeout_ms`` limits one request of the driver to the cluster (Java's ``default.api.timeout.ms``).
    """

    settings: Mapping[str, str] = attrs.field(repr=lambda settings: f"<{len(settings)} settings>")
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    api_timeout_ms: int = 60_000
    trust_store: TrustStore | None = None
    ignored: tuple[str, ...] = ()


def refused(key: str, what: str) -> ConfigurationError:
    """The error about one of Java's settings, under the name of its option."""
    return ConfigurationError(f"kafka.{key} {what}")


def whole_number(text: str) -> int | None:
    """Returns the 64-bit number that Java reads from ``text`` with blanks around it, or ``None``."""
    text = text.strip()
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) not in _INT64:
        return None
    return int(text)
