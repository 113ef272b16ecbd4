"""Stands between the engine and any location source: what leaves it is an answer that the engine knows, or a DirectFetchError.

Sources raise what they document. One with a defect must cost speed and never a partition or a thread, so whatever else it
raises or answers becomes a LocationError here. The log has the traceback. The error names the kind of the exception and has
none of its text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.model import IsolationLevel, NotRemote, PartitionOffsets, SegmentLocation

__all__ = ["GuardedLocationSource"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class GuardedLocationSource:
    """A LocationSource that raises DirectFetchError kinds and nothing else. Owns ``inner``. Thread safe as that is."""

    def __init__(self, inner: LocationSource) -> None:
        self.inner = inner

    def locate(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        leader_epoch: int,
        isolation_level: IsolationLevel,
        max_bytes: int,
        deadline: Deadline,
    ) -> SegmentLocation | NotRemote:
        """As LocationSource."""

        def ask() -> SegmentLocation | NotRemote:
            found = self.inner.locate(
                topic,
                partition,
                offset,
                leader_epoch=leader_epoch,
                isolation_level=isolation_level,
                max_bytes=max_bytes,
                deadline=deadline,
            )
            return _known(found, SegmentLocation, NotRemote)

        return _guarded(f"asking where {topic}-{partition} lies", ask)

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """As LocationSource."""
        return _guarded(
            f"asking for the bounds of {topic}-{partition}",
            lambda: _known(self.inner.offsets(topic, partition, deadline), PartitionOffsets),
        )

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """As LocationSource, and never raises: each partition has an answer or an error."""

        def ask() -> dict[tuple[str, int], PartitionOffsets | DirectFetchError]:
            answers = self.inner.offsets_of(partitions, deadline)
            return {key: _known(answers[key], PartitionOffsets, DirectFetchError) for key in partitions}

        try:
            return _guarded("asking for the bounds of tiers", ask)
        except DirectFetchError as error:
            return dict.fromkeys(partitions, error)

    def close(self) -> None:
        """As LocationSource. Never raises."""
        try:
            _guarded("closing the location source", self.inner.close)
        except DirectFetchError as error:
            _log.debug("the location source is closed with an error: %s", error.cause)


def _known(answer: _T, *kinds: type) -> _T:
    if not isinstance(answer, kinds):
        raise TypeError(f"the location source answered with a {type(answer).__name__}")
    return answer


def _guarded(doing: str, ask: Callable[[], _T]) -> _T:
    try:
        return ask()
    except DirectFetchError:
        raise
    except Exception as error:  # noqa: BLE001 - see the module
        _log.exception("%s failed; the broker takes over", doing)
        kind = type(error).__name__
    # outside of the handler, so that not even __context__ leads to a text that nobody has looked at
    raise LocationError(f"{doing} failed: the location source raised {kind}; the log has the traceback")
