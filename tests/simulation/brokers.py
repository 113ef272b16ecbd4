"""Three brokers of a simulated world: what happens to logs, tier and leaders, and who may read.

Logs, tasks and answers are those of ``tiered_cluster`` and ``tiered_kafka``. Here is what happens to them, at random times:
producers append and end transactions, segments are copied and expire, records are deleted, leaders change, cleanly or not,
leaders crash in the middle of a copy, the topic is deleted and created again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_remote_client.errors import (
    LocationExpiredError,
    ObjectNotFoundError,
    RemoteStorageError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.shim.signing import SignatureRefusal, SignatureRefusedError, UrlSigner
from kafka_remote_client.tiered_kafka.fetches import Fetches
from kafka_remote_client.tiered_kafka.requests import Requests
from kafka_remote_client.tiered_kafka.topics import CrashPoint
from tests.simulation.judge import ViolationError
from tests.simulation.produced_log import ProducedLog
from tests.simulation.scenario import MOST_PARTITIONS
from tests.simulation.topic_logs import ADDRESSES, SETTLED_TOPICS, TOPIC, TOPICS, LedPartition, begun

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Brokers", "StoredObjects"]

STORE_URL = "http://127.0.0.1:9000"
_SECRET = b"the key of the simulated store"
_LATENCIES_PER_EVENT = 4
_DELETION_SECONDS = 0.1
"""The mean time between deletions of logs to which nothing is appended, if they are as frequent as possible."""
_MOST_DELETED = 40


class StoredObjects:
    """The RemoteObjectStore of the shim, over the tier's objects."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = objects

    def get(self, key: str) -> bytes:
        if key not in self._objects:
            raise ObjectNotFoundError(f"no object {key}")
        return self._objects[key]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get(key)[start:end]

    def size(self, key: str) -> int:
        return len(self.get(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (ObjectInfo(key, len(data)) for key, data in sorted(self._objects.items()) if key.startswith(prefix))

    def close(self) -> None:
        """Nothing is open."""


class Brokers:
    """See the module. ``changed`` is called after logs have changed, ``deleted`` after the topic was deleted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.changed: Callable[[], None] = lambda: None
        self.deleted: Callable[[], None] = lambda: None
        self._chance = world.chance
        self._calm = False
        scenario, chance = world.scenario, world.chance
        if scenario.settled:
            logs = begun(chance.randrange(SETTLED_TOPICS), MOST_PARTITIONS, settled=True)
        else:
            logs = begun(chance.randrange(TOPICS), scenario.partitions)
        self._logs = logs = logs.copied(chance, world.clock)
        self.topics, self.store, self.objects = logs.topics, logs.store, logs.objects
        self.partitions = logs.partitions[: scenario.partitions]
        self.spans = logs.spans
        self.signer = UrlSigner(_SECRET, STORE_URL, world.clock)
        fetches = Fetches(self.topics, logs.changes, world.clock)
        self.requests = Requests(self.topics, ADDRESSES, world.clock, fetches)
        self.denied: dict[str, float] = {}
        """Since when each client that may not read may not."""
        self.clients: dict[str, None] = {}
        """The names of all clients."""

    def start(self) -> None:
        """From now on something happens."""
        if not self.world.scenario.settled:
            self.world.after(self._pause, self._happen)
        elif self.world.scenario.segments_deleted:
            self.world.after(self._until_deletion, self._delete_a_little)

    def calm(self) -> None:
        """From now on nothing happens: all transactions have ended, and all clients may read."""
        self._calm = True
        self.denied.clear()
        for partition in self.partitions:
            for producer in sorted(partition.log.open):
                self._logs.mark(partition, producer)
        self.changed()

    @property
    def _pause(self) -> float:
        scenario = self.world.scenario
        return self.world.some(_LATENCIES_PER_EVENT * scenario.latency + scenario.takes_seconds)

    def opened(self, command: Fetch, now: float) -> bytes | RemoteStorageError:
        """Returns the bytes of a granted range, or why its URL opens nothing."""
        granted = command.range.granted
        if self.world.happens(self.world.scenario.urls_expire):  # the store's clock is ahead
            return LocationExpiredError("403 expired")
        place = LocationMetadata.decode(granted.custom_metadata)
        assert place.url is not None
        target = place.url.removeprefix(STORE_URL)
        wanted = f"bytes={granted.range.start}-{granted.range.end - 1}"
        try:
            request = self.signer.verify("GET", target, {"range": wanted})
        except SignatureRefusedError as refused:
            if refused.reason is not SignatureRefusal.EXPIRED:
                raise ViolationError("J17", f"the store refuses a granted URL: {refused.reason.name}") from None
            return LocationExpiredError("403 expired")
        self._judge_opened(target, request.key, granted.range.size, request.range.size, now)
        if request.key not in self.objects:
            return SegmentNotFoundError("404")
        return self.objects[request.key][request.range.start : request.range.end]

    def _judge_opened(self, target: str, key: str, granted: int, opened: int, now: float) -> None:
        path, _, query = target.partition("?")
        expires = int(dict(one.split("=") for one in query.split("&"))["expires"])
        if int(now * 1000) >= expires or not path.endswith(key) or granted != opened:
            raise ViolationError("J17", f"at {now:.3f} s the store opens {opened} bytes of {path} for {query}")

    # -- what happens ------------------------------------------------------------------------------------------------------

    def _happen(self) -> None:
        chance, scenario, world = self._chance, self.world.scenario, self.world
        if self._calm:
            return
        partition = chance.choice(self.partitions)
        for _ in range(chance.randint(1, 6)):
            self._logs.append(partition)
        if chance.random() < 0.5:
            copied = self.topics.tier([self._logs.topic], roll=chance.random() < 0.3)
            if copied:
                world.seen.saw("tier-grew")
                world.tell("%d segments reach the tier", copied)
        if world.happens(scenario.elections):
            self._elect(partition)
        if world.happens(scenario.unclean_elections):
            self._elect_uncleanly(partition)
        if world.happens(scenario.leader_crashes):
            self._crash(partition)
        if world.happens(scenario.segments_deleted * 2):
            log = self._logs.topic.partitions[partition.number].log
            self._delete_records(partition, chance.randint(log.log_start, log.high_watermark))
        if world.happens(scenario.recreations / 4):
            self._recreate()
        for client in self.clients:
            self._permit(client)
        self.changed()
        world.after(self._pause, self._happen)

    @property
    def _until_deletion(self) -> float:
        return self.world.some(_DELETION_SECONDS / self.world.scenario.segments_deleted)

    def _delete_a_little(self) -> None:
        """A log to which nothing is appended keeps its second half."""
        partition = self._chance.choice(self.partitions)
        before = min(partition.log_start + self._chance.randint(1, _MOST_DELETED), partition.log.end // 2)
        self._delete_records(partition, max(before, partition.log_start))
        self.world.after(self._until_deletion, self._delete_a_little)

    def _permit(self, client: str) -> None:
        """A client loses READ, or gets it again."""
        now = self.world.clock.now
        if client in self.denied:
            if self._chance.random() < 0.5:
                del self.denied[client]
                self.world.tell("%s may read again", client)
        elif self.world.happens(self.world.scenario.denials):
            self.denied[client] = now
            self.world.tell("%s loses READ", client)

    def _elect(self, partition: LedPartition) -> None:
        self.world.seen.saw("elected")
        self.topics.elect(self._logs.topic, partition.number)
        self.world.tell("partition %d has a new leader", partition.number)

    def _elect_uncleanly(self, partition: LedPartition) -> None:
        tiered_end = partition.tiered_end
        end = self._logs.cut(partition)
        if end is None:
            return
        self.world.seen.saw("elected-uncleanly")
        if end < tiered_end:
            self.world.seen.saw("tier-diverged")
        self.world.tell("partition %d has a new leader, whose log ends at %d", partition.number, end)

    def _crash(self, partition: LedPartition) -> None:
        point = self._chance.choice(tuple(CrashPoint))
        self.topics.roll(self._logs.topic, partition.number)
        try:
            self.topics.crash(self._logs.topic, partition.number, point)
        except ValueError:  # there was nothing to copy or to delete
            return
        self.world.seen.saw("leader-crashed")
        self.world.tell("the leader of partition %d crashes: %s", partition.number, point.value)

    def _delete_records(self, partition: LedPartition, before: int) -> None:
        self.topics.delete_records(self._logs.topic, partition.number, before)
        self.world.tell("partition %d: the log starts at %d", partition.number, partition.log_start)
        if self._chance.random() < 0.7:
            self.topics.expire([self._logs.topic], None)

    def _recreate(self) -> None:
        self.world.seen.saw("topic-recreated")
        self.world.tell("the topic is deleted and created again")
        for partition in self.partitions:
            partition.replace(ProducedLog())
        self.topics.delete(TOPIC)
        self.deleted()
        self._logs.create()
