"""Where a tier lies in a store of buckets: ``scheme://bucket/prefix``, and the names of objects below it."""

from __future__ import annotations

import re

import attrs

from kafka_remote_client.errors import ConfigurationError, ForbiddenLocationError
from kafka_remote_client.safe_open import check_object_key

__all__ = ["StoreUrl"]

_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+]*)://(?P<bucket>[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9])(?P<path>/[^?#\\]*)?", re.ASCII
)


@attrs.frozen
class StoreUrl:
    """A bucket (Azure: a container), and in front of each key a prefix that is empty or ends with ``/``."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str, *schemes: str) -> StoreUrl:
        """Raises ConfigurationError, which shows nothing of the URL but its scheme, unless it is ``scheme://bucket[/prefix]``."""
        parts = _URL.fullmatch(url)
        prefix = (parts["path"] or "").strip("/") if parts else ""
        try:
            if prefix:
                check_object_key(prefix)
        except ValueError:
            parts = None
        if parts is None or parts["scheme"] not in schemes:
            given = url.partition("://")[0]
            scheme = given if given in schemes else schemes[0]
            raise ConfigurationError(f"the store URL must be {scheme}://BUCKET or {scheme}://BUCKET/PREFIX")
        return cls(parts["bucket"], f"{prefix}/" if prefix else "")

    def name(self, key: str) -> str:
        """The object's name in the bucket. Raises ForbiddenLocationError for what is no object key."""
        try:
            check_object_key(key)
        except ValueError as error:
            reason = str(error)
        else:
            return self.prefix + key
        raise ForbiddenLocationError(reason)

    def key(self, name: str) -> str | None:
        """The key of an object of that name; None where it has none, such as the markers that stand for folders."""
        key = name.removeprefix(self.prefix)
        try:
            check_object_key(key)
        except ValueError:
            return None
        return key
