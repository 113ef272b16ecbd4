"""The part of a scan that the brokers deliver: records that are not tiered, and records that the tier cannot deliver.

::

    the tier's part of a split ends because   | live | on_fallback  | next
    it was read to the split's end            |      |              | nothing
    the rest is not tiered, or not decided    | yes  |              | the brokers continue at the exact next offset
    there, or the log begins below the tier   |      |              |
    anything else                             |      | BROKER       | a WARNING, then the same
    anything else                             |      | FAIL         | TierUnavailableError

The read of a split decides this, not its plan. So an export that continues later reads newly tiered records from the tier.

References: docs/tables.md, "With the brokers".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Mapping
from uuid import UUID

import attrs

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fallback import Fallback, FallbackLog, OnFallback, TierUnavailableError
from kafka_remote_client.fetch.broker_log import BrokerLog, open_broker_log
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.location.bootstrap import named_servers
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.scanning.tier_address import count_only
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["BEFORE_THE_TIER", "BrokerAddress", "BrokerPart", "brokers_of", "check_brokers"]

_log = logging.getLogger(__name__)

BEFORE_THE_TIER = "before-the-tier"
_NOT_TIERED = frozenset({"end", "undecided", BEFORE_THE_TIER})


def _copied(values: Mapping[str, object]) -> dict[str, object]:
    return dict(values)


@attrs.frozen
class BrokerAddress:
    """librdkafka's settings for connections, ``bootstrap.servers`` at least. It can be pickled; ``repr`` shows no settings."""

    settings: Mapping[str, object] = attrs.field(converter=_copied, repr=count_only)

    def __attrs_post_init__(self) -> None:
        if not named_servers(self.settings)[1]:
            raise ConfigurationError("broker must have bootstrap.servers")

    def open(self, scan: Scan, tier: TierReader) -> BrokerPart:
        """Connects at the first request. Raises ConfigurationError for settings with which it cannot connect."""
        return BrokerPart(open_broker_log(self.settings, tier.config), scan, tier)


class BrokerPart:
    """The brokers of an opened scan. Thread safe. Owns ``log``, not ``tier``."""

    def __init__(self, log: BrokerLog, scan: Scan, tier: TierReader) -> None:
        self.log = log
        self._live = scan.live
        self._takes_over = scan.on_fallback is OnFallback.BROKER
        self._tier = tier
        self._fallbacks = FallbackLog(_log, SystemClock())
        self._lock = threading.Lock()
        self._topic_ids: dict[str, UUID] = {}

    def knows_topic(self, topic: str, topic_id: UUID) -> None:
        """Reads records of the topic only if it has this id; zeros = not known. Without this call it is the tier's id."""
        self._topic_ids[topic] = topic_id

    @property
    def replaces_the_tier(self) -> bool:
        """Whether a plan does not need the tier: the brokers have the bounds and all records."""
        return self._live and self._takes_over

    def continues(self, partition: TopicPartition, ended: ReadEnd) -> bool:
        """Whether the brokers continue where the tier's part of a split ended. A fallback is counted and logged."""
        if self._live and ended.reason in _NOT_TIERED:
            self._tier.metrics.add("remote-fetch-handovers-total")
            return True
        if self._takes_over:
            found = ended.fallback(*partition)
            # A scan without an error also lacks records that the tier should have.
            missing = TierUnavailableError(f"the tier has no record at offset {ended.next_offset} ({ended.reason})")
            self.fell_back(attrs.evolve(found, error=found.error or missing))
        return self._takes_over

    def fell_back(self, fallback: Fallback) -> None:
        """Counts a fallback, and logs it: one WARNING a minute for each cause and host."""
        self._tier.metrics.fallback(fallback.cause)
        with self._lock:
            self._fallbacks.write(fallback)

    def blocks(
        self, split: Split, start: int, isolation_level: IsolationLevel, *, tally: bool | None = None
    ) -> Generator[RecordBlock, None, None]:
        """Yields the split's records from ``start`` on. Raises BrokerReadError and UnsupportedFormatError."""
        topic = split.topic_partition.topic
        if topic not in self._topic_ids:
            self._topic_ids[topic] = next((tip.topic_id for tip in self._tier.partitions(topic)), ZERO_UUID)
        size = split.part(start, split.end).size_in_bytes
        found = self.log.blocks(
            split.topic_partition,
            self._topic_ids[topic],
            start,
            split.end,
            isolation_level,
            size_in_bytes=size,
            tally=tally,
        )
        for block in found:
            if tally is None:
                self._tier.metrics.add("broker-fetch-records-total", len(block))
            yield block

    def close(self) -> None:
        """Closes connections. May be called twice."""
        self.log.close()


def check_brokers(scan: Scan, address: BrokerAddress | None) -> None:
    """Raises ConfigurationError if the scan needs an address of brokers and has none."""
    if scan.needs_brokers and address is None:
        needing = "live=True" if scan.live else 'on_fallback="broker"'
        raise ConfigurationError(f"{needing} needs the connection to the brokers: broker={{'bootstrap.servers': ...}}")


def brokers_of(scan: Scan, address: BrokerAddress | None, tier: TierReader) -> BrokerPart | None:
    """Returns the brokers if the scan may read from them, else ``None``. Raises as :func:`check_brokers` and ``open``."""
    check_brokers(scan, address)
    return address.open(scan, tier) if address is not None and scan.needs_brokers else None
