"""Decides whether the broker delivers tiered records faster than the store. Pure (no I/O): the caller passes the time.

Theory of operation. Two paces are compared, in bytes of the original segment per second. The *store's* is the median of the
partition's last ranges, each ``size * ranges in flight / seconds``: the store's rate for all partitions together during
requests (Little's law). The *broker's* is the number of offsets that the application read while the broker delivered, times
the bytes per offset of the segment read last. So with a slow application the paces are equal, and no
partition leaves a healthy store because others use their share of it.

======  ============================================================  ==============================================
place   observation                                                   next
======  ============================================================  ==============================================
STORE   fewer than 4 ranges, or less than 2 s of waiting for them     STORE
STORE   at least the sufficient pace (the setting)                    STORE; the broker's known pace is dropped
STORE   slower, and less than half of the broker's known pace         BROKER, for twice as long as the last time
STORE   slower otherwise, and a trial is allowed                      TRIAL: the broker delivers for 2 s
STORE   slower otherwise                                              STORE
TRIAL   the broker was more than twice as fast as the store           BROKER, for the first stay
TRIAL   it was not                                                    STORE; the pause before the next trial doubles
BROKER  the stay is over                                              STORE, measured again; the broker's pace is kept
any     its ranges arrive although it should be with the broker       STORE: the application has sought, or returned
======  ============================================================  ==============================================

One partition is on trial at a time, so trials have a limited cost for brokers, and each partition is compared with a broker
that serves those that left before it. The factor of two separates leaving and returning, and stays and pauses double, so a
partition does not flap. Leaving the store is an ordinary fallback, from the exact next offset.

References: docs/reliability.md, fault F29.
"""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum, auto
from statistics import median

import attrs

from kafka_remote_client.model import RemoteLogSegmentMetadata

__all__ = ["SLOWER_THAN_BROKER", "BrokerPreference", "Key", "Place"]

SLOWER_THAN_BROKER = "slower-than-broker"
"""The reason that such fallbacks are counted by."""

_FACTOR = 2.0
_REMEMBERED = 16
_FEWEST_RANGES = 4
_LEAST_WAITING_SECONDS = 2.0
_OLDEST_SECONDS = 60.0
_TRIAL_SECONDS = 2.0
_LONGEST_TRIAL_SECONDS = 60.0
_LONGEST_STAY_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 600.0

Key = tuple[str, int]


class Place(Enum):
    """The tier that a partition is read from."""

    STORE = auto()
    TRIAL = auto()
    BROKER = auto()


@attrs.frozen
class _Landed:
    at: float
    waited: float
    """Its seconds, shared among the ranges that were in flight with it."""
    pace: float


@attrs.define
class _Partition:
    first_stay: float
    place: Place = Place.STORE
    landed: deque[_Landed] = attrs.field(factory=lambda: deque(maxlen=_REMEMBERED))
    bytes_per_offset: float = 0.0
    store: float = 0.0
    """The store's pace when the partition left it."""
    broker: float | None = None
    stay: float = 0.0
    left_offset: int = 0
    left_at: float | None = None
    """``None`` until the broker continues."""

    def back(self) -> None:
        """From now on the partition reads the store and measures it."""
        self.place = Place.STORE
        self.left_at = None
        self.landed.clear()

    def forget_broker(self) -> None:
        self.broker = None
        self.stay = 0.0

    def lengthen(self) -> None:
        self.stay = min(max(self.first_stay, 2 * self.stay), max(self.first_stay, _LONGEST_STAY_SECONDS))


class BrokerPreference:
    """See the module. Thread safe. ``key`` identifies a partition: topic and number.

    ``slow``: a partition never leaves a store with at least this many bytes per second; 0 = it never leaves. ``first_stay``:
    seconds. ``now`` is always monotonic seconds.
    """

    def __init__(self, slow: int, first_stay: float) -> None:
        self._slow = slow
        self._first_stay = first_stay
        self._lock = threading.Lock()
        self._partitions: dict[Key, _Partition] = {}
        self._trial_until = 0.0
        self._no_trial_before = 0.0
        self._pause = 0.0

    def landed(
        self, key: Key, segment: RemoteLogSegmentMetadata, size: int, seconds: float, *, in_flight: int, now: float
    ) -> None:
        """A range of ``size`` bytes arrived after ``seconds``, one of ``in_flight`` (including itself)."""
        if not self._slow:
            return
        waited = max(seconds, 1e-6) / max(1, in_flight)
        with self._lock:
            partition = self._partitions.setdefault(key, _Partition(self._first_stay))
            if partition.left_at is not None:
                partition.back()
            partition.bytes_per_offset = segment.segment_size_in_bytes / (segment.end_offset - segment.start_offset + 1)
            partition.landed.append(_Landed(now, waited, size / waited))

    def leaves(self, key: Key, now: float) -> bool:
        """Whether the partition must move to the broker before the next range."""
        with self._lock:
            partition = self._partitions.get(key)
            pace = None if partition is None else _pace(partition, now)
            if partition is None or pace is None:
                return False
            if pace >= self._slow:
                partition.forget_broker()
                return False
            if partition.broker is not None and partition.broker > _FACTOR * pace:
                partition.lengthen()
                partition.place = Place.BROKER
            elif now >= max(self._trial_until, self._no_trial_before):
                self._trial_until = now + _LONGEST_TRIAL_SECONDS
                partition.place = Place.TRIAL
            else:
                return False
            partition.store = pace
            partition.landed.clear()
            return True

    def left(self, key: Key, offset: int, now: float) -> float:
        """The broker continues at ``offset``. Returns the seconds after which to call :meth:`returns`."""
        with self._lock:
            partition = self._partitions[key]
            partition.left_offset, partition.left_at = offset, now
            return _TRIAL_SECONDS if partition.place is Place.TRIAL else partition.stay

    def returns(self, key: Key, offset: int, now: float) -> bool:
        """Whether a partition that the broker has read up to ``offset`` must return to the store."""
        with self._lock:
            partition = self._partitions.get(key)
            if partition is None or partition.left_at is None:
                return True
            seconds = now - partition.left_at
            if seconds < (_TRIAL_SECONDS if partition.place is Place.TRIAL else partition.stay):
                return False
            pace = max(0, offset - partition.left_offset) * partition.bytes_per_offset / seconds
            if partition.place is Place.TRIAL:
                self._trial_until = now
                if pace > _FACTOR * partition.store:
                    self._pause = 0.0
                    partition.place = Place.BROKER
                    partition.lengthen()
                    partition.left_offset, partition.left_at = offset, now
                    partition.broker = pace
                    return False
                self._pause = min(max(_FIRST_PAUSE_SECONDS, 2 * self._pause), _LONGEST_PAUSE_SECONDS)
                self._no_trial_before = now + self._pause
                partition.forget_broker()
            else:
                partition.broker = pace
            partition.back()
            return True


def _pace(partition: _Partition, now: float) -> float | None:
    """The store's pace in bytes per second; ``None`` with too few measurements."""
    landed = partition.landed
    while landed and landed[0].at < now - _OLDEST_SECONDS:
        landed.popleft()
    if len(landed) < _FEWEST_RANGES or sum(one.waited for one in landed) < _LEAST_WAITING_SECONDS:
        return None
    return median(one.pace for one in landed)
