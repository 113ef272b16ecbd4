"""The policy of grants for each topic: the tables of the setting ``topic_policies``.

::

    field           | value                                                                      | not given
    grant           | never: the broker serves all records; range: only URLs that are bound to a | whole-object if
                    | range; whole-object: also URLs that open whole segments (Azure)            | whole_object_urls, else range
    url_ttl         | lifetime of URLs in seconds                                                | url_ttl
    max_grant_bytes | bytes of all ranges of one grant                                           | max_grant_bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.pattern_tables import PatternTables, number
from kafka_remote_client.shim.settings import shim_setting

__all__ = ["TopicPolicy", "topic_policies"]

_GRANTS = ("never", "range", "whole-object")


@attrs.frozen
class TopicPolicy:
    """The policy of a topic; ``None`` = the value of the setting with that name."""

    grant: str | None = None
    url_ttl: float | None = None
    max_grant_bytes: int | None = None

    def permits(self, *, whole_objects: bool, whole_object_urls: bool) -> bool:
        """Whether a URL may be granted. ``whole_objects``: whether URLs of the store open whole objects."""
        grant = self.grant or ("whole-object" if whole_object_urls else "range")
        return grant == "whole-object" or (grant == "range" and not whole_objects)


def topic_policies(given: Mapping[str, Any]) -> PatternTables[TopicPolicy]:
    """Policies by the name of a topic. Raises ConfigurationError."""
    return PatternTables("topic_policies", given, _FIELDS, TopicPolicy, TopicPolicy())


def _grant(value: Any, name: str) -> str:
    if value not in _GRANTS:
        raise ConfigurationError(f"{name} must be {', '.join(_GRANTS[:-1])} or {_GRANTS[-1]}")
    return str(value)


def _seconds(value: Any, name: str) -> float:
    return arguments.finite(number(value, float, name), name, *_bounds("url_ttl"))


def _bytes(value: Any, name: str) -> int:
    return arguments.whole(number(value, int, name), name, *map(int, _bounds("max_grant_bytes")))


def _bounds(name: str) -> tuple[float, float]:
    setting = shim_setting(name)
    assert setting.minimum is not None
    assert setting.maximum is not None
    return setting.minimum, setting.maximum


_FIELDS = {"grant": _grant, "url_ttl": _seconds, "max_grant_bytes": _bytes}
