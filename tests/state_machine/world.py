"""The environment of the machine's consumers: an embedded cluster with a scripted store, topics on both tiers, and faults.

=================  =======================================================================================================
partitions         content
=================  =======================================================================================================
``orders`` 0 to 3  segments of a few batches in the tier, and a few records in the broker's local log
``mixed`` 0        every codec; committed and aborted transactions across segments (``tests.faults.streams``)
``aborted`` 0      in the tier only; it ends with aborted transactions, and nothing is produced after them
``fresh`` 0        in the broker's local log only, until the world archives
``empty`` 0        no record until one is produced
=================  =======================================================================================================

Created once per process. Machines produce and archive records, so logs and the tier only grow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import confluent_kafka
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import LocationError
from kafka_remote_client.testing import Answer, Ending, ScriptedOrigin, error
from tests.faults.streams import Segment, Transactions, mixed_segments, write_stream
from tests.support.embedded_topics import direct_settings, plain_settings, records
from tests.support.history import Key, Record
from tests.support.scripted_peer import CERTIFICATE

__all__ = ["ABORTED", "FAULTS", "ISOLATION", "KEYS", "PATIENCE_SECONDS", "World"]

ISOLATION = ("read_committed", "read_uncommitted")
PATIENCE_SECONDS = 60.0
KEYS: tuple[Key, ...] = (
    *(("orders", partition) for partition in range(4)),
    ("mixed", 0),
    ("aborted", 0),
    ("fresh", 0),
    ("empty", 0),
)
ABORTED: Key = ("aborted", 0)
_SECRET = b"a secret of the state machine"
_BATCH = 6
_ORDERS = 54
_GONE_MS = 3_600_000


class _Files(Mapping[str, bytes]):
    """The tier's files as objects of a store."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __getitem__(self, key: str) -> bytes:
        try:
            return (self._directory / key).read_bytes()
        except OSError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError


class _StoreClock(SystemClock):
    """The clock of the store. Moved forward, it makes every signed URL expire."""

    shift_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.shift_ms


def _flipped(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes((data[at] ^ 4,)) + data[at + 1 :]


def _aborted_at_the_end() -> list[Segment]:
    log = Transactions()
    for commit in (True, False, True, False, False):
        for _ in range(3):
            log.records(8, producer=100, size=60)
        (log.commit if commit else log.abort)(100)
        log.roll()
    return log.segments


FAULTS: Mapping[str, Answer] = {
    "error": error(500, "InternalError"),
    "refused": error(403, "AccessDenied"),
    "gone": error(404, "NoSuchKey"),
    "cut": Answer(ending=Ending.CUT, at=100),
    "reset": Answer(ending=Ending.RESET, at=700),
    "slow": Answer(delay=0.02),
    "stalled": Answer(ending=Ending.STALL, at=300),
    "flipped": Answer(transform=_flipped),
    "short": Answer(transform=lambda data: data[:-3]),
}
"""What every answer of the store is like from now on. Two more are not the store's answers: "expired" and "shim-down"."""


class World:
    """A context manager. ``truth``: the records that a plain consumer reads from each partition, by isolation level."""

    def __init__(self, directory: Path) -> None:
        self._stack = ExitStack()
        self.store_clock = _StoreClock()
        self.origin = ScriptedOrigin(secret=_SECRET, clock=self.store_clock)
        self._directory = directory
        self._shim_down = False
        self.truth: dict[str, dict[Key, list[Record]]] = {level: {key: [] for key in KEYS} for level in ISOLATION}
        self.ends: dict[Key, int] = {}
        self.starts: dict[Key, int] = dict.fromkeys(KEYS, 0)
        self.marked: set[Key] = {("mixed", 0), ABORTED}
        """Partitions that have transactions."""
        self.all_ends: dict[Key, set[int]] = {key: set() for key in KEYS}

    def __enter__(self) -> Self:
        self._stack.enter_context(self.origin)
        self.cluster = self._stack.enter_context(
            EmbeddedCluster(
                self._directory,
                segment_bytes=1_500,
                range_bytes=1_500,
                max_grant_bytes=6_000,
                expire_local=True,
                signer=self.origin.signer,
            )
        )
        shim: Any = self.cluster._shim
        shim._loop.set_debug(False)  # -X dev records a traceback for each callback, which doubles its CPU time
        self.origin.objects = _Files(self.cluster.directory)  # type: ignore[assignment] # nobody changes it
        for partition in range(4):
            made = records(_ORDERS, f"orders-{partition}")
            for start in range(0, _ORDERS, _BATCH):
                self.cluster.produce("orders", made[start : start + _BATCH], partition=partition)
        self.cluster.archive()
        write_stream(self.cluster, "mixed", mixed_segments(0), local=0)
        write_stream(self.cluster, "aborted", _aborted_at_the_end(), local=0)
        self.cluster.produce("mixed", records(20, "mixed"))
        self.cluster.produce("fresh", records(30, "fresh"))
        self.cluster.kafka.create_topic("empty")
        for level in ISOLATION:
            with self._reader(isolation_level=level) as reader:
                read = self._read(reader, dict.fromkeys(KEYS, 0))
            for key in KEYS:
                self.truth[level][key] += read[key]
        # Records produced later are in no transaction, so both levels see them. At first only the broker has them.
        self._newest = self._stack.enter_context(self._reader(bootstrap_servers=self.cluster.broker_bootstrap_servers))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def _reader(self, **more: object) -> Iterator[confluent_kafka.Consumer]:
        reader = confluent_kafka.Consumer(self.settings(**more))
        try:
            yield reader
        finally:
            reader.close()

    def _read(self, reader: confluent_kafka.Consumer, starts: Mapping[Key, int]) -> dict[Key, list[Record]]:
        """Reads partitions from their starts until each reports its end. Records the ends.

        Uses assign and unassign, because librdkafka takes up to a second to resume a partition.
        """
        deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
        read: dict[Key, list[Record]] = {key: [] for key in starts}
        ends: dict[Key, int] = {}
        reader.assign([TopicPartition(*key, start) for key, start in starts.items()])
        while any(ends.get(key, -1) < self.ends.get(key, 0) for key in starts):
            assert not deadline.expired(), f"only {ends} ended"
            message = reader.poll(0.1)
            if message is None:
                continue
            key = str(message.topic()), int(message.partition() or 0)
            if message.error() is None:
                read[key].append(Record.of(message))
            else:
                ends[key] = int(message.offset() or 0)
        reader.unassign()
        for key in starts:
            self.ends[key] = max(self.ends.get(key, 0), ends[key])
            self.all_ends[key].add(self.ends[key])
        return read

    def end(self, key: Key, isolation: str) -> int:
        """The end of a partition as a consumer of an isolation level sees it: here no transaction is open."""
        return self.ends[key]

    # -- changes of logs --------------------------------------------------------------------------------------------------

    def produce(self, key: Key, count: int, commit: bool | None = None) -> None:
        """Appends records to a partition, except to ``aborted``. ``commit`` is for the real broker."""
        if key == ABORTED:
            return
        topic, partition = key
        start = self.ends[key]
        offsets = self.cluster.produce(topic, records(count, f"{topic}-{partition} from {start}"), partition=partition)
        self.ends[key] = max(offsets) + 1
        read = self._read(self._newest, {key: start})
        assert [record.offset for record in read[key]] == offsets
        for level in ISOLATION:
            self.truth[level][key] += read[key]

    def archive(self) -> None:
        """Moves all records of the broker, also those of the active segment, to the tier."""
        self.cluster.archive(keep_open=False)

    # -- faults -----------------------------------------------------------------------------------------------------------

    def fault(self, name: str) -> None:
        """Replaces the current fault."""
        self.heal()
        if name == "expired":
            self.store_clock.shift_ms = _GONE_MS
        elif name == "shim-down":
            self._shim_down = True
        else:
            self.origin.otherwise = FAULTS[name]

    def heal(self) -> None:
        """Ends the current fault."""
        self.store_clock.shift_ms = 0
        self._shim_down = False
        self.origin.otherwise = Answer()
        self.origin.release()
        self.origin._ended.clear()

    # -- consumers ---------------------------------------------------------------------------------------------------------

    def settings(self, **more: object) -> dict[str, Any]:
        """Settings of both consumers. Short waits keep steps short."""
        return plain_settings(self.cluster, **{"fetch_wait_max_ms": 10, "reconnect_backoff_ms": 20, "check_crcs": True, **more})

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        """The consumer under test. Its shim is unreachable during the fault "shim-down"."""
        direct = {
            **direct_settings(self.cluster),
            "remote.storage.fetcher.allowed.hosts": self.origin.authority,
            "remote.storage.fetcher.ssl.ca.location": str(
                CERTIFICATE
            ),  # never used and fast to load: the system's CA file takes 20 ms
            "fetch.remote.location.timeout.ms": 5_000,
            "fetch.remote.read.timeout.ms": 200,
            "fetch.remote.connect.timeout.ms": 1_000,
            "fetch.remote.fallback.backoff.ms": 50,
            "fetch.remote.recheck.interval.ms": 100,
            "fetch.remote.breaker.reset.ms": 100,
        }
        consumer = Consumer({**direct, **config})
        source: Any = consumer._direct_engine._source  # type: ignore[attr-defined] # what is inside
        for name in ("locate", "offsets", "offsets_of"):
            setattr(source, name, self._while_up(getattr(source, name), many=name == "offsets_of"))
        return consumer

    def _while_up(self, ask: Any, *, many: bool) -> Any:
        def asked(first: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._shim_down:
                return ask(first, *args, **kwargs)
            if many:
                return {key: LocationError("the shim is unreachable") for key in first}
            raise LocationError("the shim is unreachable")

        return asked
