"""Settings for one fetcher from a set for several, because a consumer rejects settings that its fetcher does not declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_remote_fetchers.local import LocalFetcher
from kafka_remote_fetchers.object_store import ObjectStoreFetcher
from kafka_remote_fetchers.presigned import PresignedFetcher
from kafka_remote_fetchers.s3 import S3Fetcher

__all__ = ["of_its_fetcher"]

_CLASS = "remote.storage.fetcher.class"
_DECLARED = {
    "local": LocalFetcher.settings,
    "object_store": ObjectStoreFetcher.settings,
    "presigned": PresignedFetcher.settings,
    "s3": S3Fetcher.settings,
}


def of_its_fetcher(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``settings`` without those that only other fetchers declare."""
    others = frozenset().union(*_DECLARED.values()) - _DECLARED[settings[_CLASS]]
    return {name: value for name, value in settings.items() if name not in others}
