"""The address of a tier and how to open it, as one value, for a scan in this process or in another one."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from uuid import UUID

import attrs

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
from kafka_remote_client.settings import default_of

__all__ = ["TierAddress", "count_only"]


def count_only(values: Sized) -> str:
    """The number of settings, for a ``repr`` that may be logged: their values may be secret."""
    return f"<{len(values)}>"


@attrs.frozen(kw_only=True)
class TierAddress:
    """The arguments of :func:`~kafka_remote_client.fetch.tier_reader.open_tier`. It can be pickled.

    ``repr`` shows no settings of the store, as they may be secret.
    """

    store_url: str = attrs.field(kw_only=False)
    layout: str = default_of("remote.storage.store.layout")
    key_prefix: str = ""
    encryption_keys: Mapping[str, str] = attrs.field(factory=dict)
    store_options: Mapping[str, object] = attrs.field(factory=dict, repr=count_only)
    topic_id: UUID | None = None
    config: RemoteFetchConfig | None = None

    def open(self, topic: str | None = None) -> TierReader:
        """Opens the tier; ``topic`` bounds listings to one name. Raises as ``open_tier``."""
        return open_tier(**attrs.asdict(self, recurse=False), topic=topic)
