"""``readStream`` of PySpark ≥ 4.2: the same with limits, which 4.0 and 4.1 do not know; and the choice between both.

PySpark 4.2 hands a start and a limit to ``latestOffset``.

References: Spark's KafkaMicroBatchStream; PySpark's ReadLimit, SupportsTriggerAvailableNow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.planning.batch_plan import learn_segments
from kafka_remote_client.spark.planning.known_segments import KnownSegments
from kafka_remote_client.spark.planning.micro_batch import available, batch_end, batch_end_by_bytes, delay_seconds
from kafka_remote_client.spark.source import pyspark_api
from kafka_remote_client.spark.source.input_partition import KafkaRemotePartition
from kafka_remote_client.spark.source.pyspark_api import SupportsTriggerAvailableNow
from kafka_remote_client.spark.source.stream_reader import KafkaRemoteStreamReader, Offsets, as_json, from_json

__all__ = ["LimitedStreamReader", "stream_reader"]

_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay")


def stream_reader(options: Mapping[str, str]) -> KafkaRemoteStreamReader:
    """Returns the reader for this PySpark. Raises ConfigurationError for unsupported limits, and for invalid options."""
    if pyspark_api.READ_LIMITS is not None:
        return LimitedStreamReader(options)
    folded = {name.lower() for name in options}
    given = [name for name in _LIMITS if name.lower() in folded]
    if given:
        raise ConfigurationError(f"PySpark 4.2 is the oldest version that supports {', '.join(given)}")
    return KafkaRemoteStreamReader(options)


class LimitedStreamReader(KafkaRemoteStreamReader, SupportsTriggerAvailableNow):
    """The same for PySpark ≥ 4.2: limits, and an end that is fixed when a query of Trigger.AvailableNow begins."""

    def __init__(self, options: Mapping[str, str], **components: Any) -> None:
        """``components``: as for :class:`KafkaRemoteStreamReader`."""
        super().__init__(options, **components)
        self._delay = delay_seconds("maxTriggerDelay", self._options.max_trigger_delay)
        self._target: Offsets | None = None
        self._segments = KnownSegments(partial(learn_segments, self._options, again=False))
        self._last_batch_at: float | None = None

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - PySpark's name
        """Returns the limit of the options. PySpark has no limit that combines both, so this class applies the minimum."""
        limits = pyspark_api.READ_LIMITS
        if self._options.max_offsets_per_trigger is not None:
            return limits.ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return limits.ReadMinRows(self._options.min_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            return limits.ReadMaxBytes(self._options.max_bytes_per_trigger)
        return limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - PySpark's name
        """Fixes the end. Raises LocationError."""
        self._target = self._ends()

    def latestOffset(self, start: Mapping[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - PySpark 4.2's own
        """Where the next micro-batch ends; ``start`` itself to wait for more. Raises LocationError, ConfigurationError."""
        ends = self._ends() if self._target is None else self._target
        if not ends or isinstance(limit, pyspark_api.READ_LIMITS.ReadAllAvailable):
            return self._end_after(start, ends)
        begin = from_json(start)
        new = sorted(ends.keys() - begin.keys())
        known = {**begin, **(self._asked().starts(new) if new else {})}
        if self._waits(available(known, ends)):
            return dict(start)
        self._last_batch_at = self._clock.monotonic()
        return as_json(self._limited(known, ends))

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[KafkaRemotePartition]:
        """The splits of a micro-batch. Raises DataLossError, whatever ``failOnDataLoss`` says, where the end that was fixed
        for Trigger.AvailableNow can no longer be reached; otherwise as without a limit.
        """
        if self._target is not None and start != end:
            self._check_target(self._target, self._ends(), from_json(end))
        return super().partitions(start, end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """The end of the log, for the progress of a query. Raises LocationError."""
        return as_json(self._ends())

    @staticmethod
    def _check_target(target: Offsets, ends: Offsets, end: Offsets) -> None:
        what = "the end that Trigger.AvailableNow began with cannot be reached"
        gone = sorted(target.keys() - ends.keys())
        if gone:
            raise DataLossError(f"{what}: partitions are gone: {', '.join(map(str, gone))}")
        for partition, until in sorted(end.items()):
            if ends.get(partition, until) < until:
                raise DataLossError(f"{what}: {partition} ends at {ends[partition]}, before {until}")

    def _limited(self, start: Offsets, ends: Offsets) -> Offsets:
        found = batch_end(start, ends, self._options.max_offsets_per_trigger)
        most = self._options.max_bytes_per_trigger
        return found if most is None else {**found, **batch_end_by_bytes(self._segments.ranges(start, found, most), most)}

    def _waits(self, found: int) -> bool:
        """Whether there is too little for a batch yet. The first batch never waits, nor does a query that ends by itself."""
        least = self._options.min_offsets_per_trigger
        if least is None or found >= least or self._target is not None or self._last_batch_at is None:
            return False
        return self._clock.monotonic() - self._last_batch_at < self._delay
