from __future__ import annotations

import queue
import threading
from types import SimpleNamespace
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentState
from kafka_remote_client.remote_log import follower as follower_module
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataSnapshot
from kafka_remote_client.remote_log.follower import METADATA_TOPIC, RemoteLogMetadataFollower
from kafka_remote_client.remote_log.metadata_keys import SegmentKey
from kafka_remote_client.remote_log.metadata_snapshot import MetadataPosition, MetadataSnapshot, SnapshotOrigin
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.fake_snapshots import FakeSnapshots, packed_segment
from tests.support.golden_metadata import golden_metadata, golden_records
from tests.support.metadata_keys import write_key
from tests.support.tier import TIP, metadata, update
from tests.support.waiting import wait_until

SECONDS = 60
PARTITIONS = 4  # the number that librdkafka's mock broker gives a topic
HOME = metadata_partition(TIP, PARTITIONS)
serde = RemoteLogMetadataSerde()
SEGMENT = serde.serialize(metadata(0, 9))
FINISHED = serde.serialize(update(metadata(0, 9), RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
TOMBSTONE = write_key(SegmentKey(TIP.topic_id, TIP.partition, UUID(int=1), RemoteLogSegmentState.COPY_SEGMENT_STARTED))


class FakeMessage:
    def __init__(self, partition, offset=0, value=None, error=None, leader_epoch=None, key=None):
        self._fields = partition, offset, value, error
        self._leader_epoch = leader_epoch
        self._key = key

    def key(self):
        return self._key

    def partition(self):
        return self._fields[0]

    def offset(self):
        return self._fields[1]

    def value(self):
        return self._fields[2]

    def leader_epoch(self):
        return self._leader_epoch

    def error(self):
        return None if self._fields[3] is None else KafkaError(self._fields[3])


class FakeConsumer:
    """Returns the batches of messages that a test puts into ``script``; raises an exception in it."""

    def __init__(self, watermarks):
        self.watermarks = watermarks
        self.script = queue.Queue()
        self.taken = threading.Semaphore(0)
        self.config = {}
        self.assigned = []
        self.metadata_calls = []
        self.reassigned = []
        self.failures = {}
        self.built = 0
        self.closed = False

    def list_topics(self, topic, timeout):
        self.metadata_calls.append(topic)
        failure = self.watermarks.pop("failure", None)
        if failure:
            raise failure
        absent = self.watermarks.pop("absent", None)
        found = {} if absent else dict.fromkeys(self.watermarks)
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if absent else None
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=found, error=error)})

    def get_watermark_offsets(self, partition, timeout):
        self.fail("watermarks")
        return self.watermarks[partition.partition]

    def incremental_unassign(self, partitions):
        (self.unassigned,) = partitions

    def incremental_assign(self, partitions):
        (partition,) = partitions
        assert self.unassigned == partition
        self.reassigned.append((partition.topic, partition.partition, partition.offset))

    def poll(self, timeout):
        self.polled = True

    def assign(self, partitions):
        self.assigned = [(p.topic, p.partition, p.offset) for p in partitions]

    def consume(self, count, timeout):
        try:
            messages = self.script.get(timeout=timeout)
        except queue.Empty:
            return []
        if isinstance(messages, Exception):
            raise messages
        self.taken.release()
        return messages

    def close(self):
        self.closed = True
        self.fail("close")

    def fail(self, step):
        failure = self.failures.pop(step, None)
        if failure:
            raise failure


class PatientClock(SystemClock):
    """Counts the waits and returns at once."""

    def __init__(self):
        self.waits = 0
        self.paused = []

    def wait(self, event, seconds):
        self.waits += 1
        self.paused.append(seconds)
        return event.is_set()


class HastyClock(PatientClock):
    """An hour passes between any two readings."""

    def __init__(self):
        super().__init__()
        self.now = 0.0

    def monotonic(self):
        self.now += 3600
        return self.now


@pytest.fixture
def start(monkeypatch):
    started = []

    def begin(watermarks, *batches, clock=None, recovers=True, snapshots=None):
        consumer = FakeConsumer(watermarks)

        def build(config):
            consumer.config = config
            consumer.built += 1
            consumer.fail("build")
            return consumer

        monkeypatch.setattr(follower_module, "Consumer", build)
        for batch in batches:
            consumer.script.put(batch)
        follower = RemoteLogMetadataFollower(
            {"bootstrap.servers": "b:1"},
            RemoteLogMetadataStore(),
            clock=clock or PatientClock(),
            recovers=recovers,
            snapshots=snapshots,
        )
        started.append(follower)
        follower.start()
        return follower, consumer

    yield begin
    for follower in started:
        follower.close()


def test_all_partitions_are_read_from_their_first_offset_without_commits(start):
    follower, consumer = start({0: (5, 5), 1: (0, 0), 2: (0, 0), 3: (0, 0)})
    assert follower.wait_settled(SECONDS)
    assert sorted(consumer.assigned) == [(METADATA_TOPIC, 0, 5), *((METADATA_TOPIC, n, 0) for n in (1, 2, 3))]
    assert consumer.config["enable.auto.commit"] is False
    assert consumer.config["auto.offset.reset"] == "error"
    assert consumer.config["bootstrap.servers"] == "b:1"


def test_ready_when_the_records_known_at_the_start_are_applied(start):
    marks = {n: (0, 2 if n == HOME else 0) for n in range(PARTITIONS)}
    follower, consumer = start(marks)
    assert not follower.wait_settled(0)
    assert not follower.ready(TIP)
    consumer.script.put([FakeMessage(HOME, 0, SEGMENT), FakeMessage(HOME, 1, FINISHED)])
    assert follower.wait_settled(SECONDS)
    assert follower.ready(TIP)
    assert follower._store.cache(TIP).remote_log_segment_metadata(0, 5) is not None
    assert (follower.distrusted(), follower.bad_records) == ([], 0)


def test_a_tombstone_in_the_wrong_metadata_partition_distrusts_it(start):
    wrong = (HOME + 1) % PARTITIONS
    follower, _ = start(ALL_EMPTY, [FakeMessage(HOME, 0, SEGMENT), FakeMessage(wrong, 0, None, key=TOMBSTONE)])
    wait_until(lambda: follower.distrusted() == [wrong], "the doubt")
    assert follower._store.cache(TIP).list_all_remote_log_segments() != []


def test_a_compacted_partition_with_tombstones_is_trusted(start):
    finished = update(metadata(0, 9), RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
    gone = SegmentKey(TIP.topic_id, TIP.partition, UUID(int=77), RemoteLogSegmentState.COPY_SEGMENT_STARTED)
    keys = [gone._replace(segment_id=UUID(int=1), state=state) for state in RemoteLogSegmentState]
    follower, consumer = start({n: (0, 20 if n == HOME else 0) for n in range(PARTITIONS)})
    consumer.script.put(
        [
            FakeMessage(HOME, 3, None, key=write_key(gone)),
            FakeMessage(HOME, 7, SEGMENT, key=write_key(keys[0])),
            FakeMessage(HOME, 9, serde.serialize(finished), key=write_key(keys[1])),
            FakeMessage(HOME, 20, error=KafkaError._PARTITION_EOF),
        ]
    )
    assert follower.wait_ready(TIP, SECONDS)
    assert follower._store.cache(TIP).remote_log_segment_metadata(0, 5) is not None
    consumer.script.put([FakeMessage(HOME, 20, None, key=write_key(keys[0]))])
    wait_until(lambda: follower._store.cache(TIP).list_all_remote_log_segments() == [], "the tombstone")
    assert (follower.ready(TIP), follower.bad_records, follower._store.dropped_events) == (True, 0, 0)


def test_wait_ready_waits_for_one_partition(start):
    follower, consumer = start({n: (0, 1 if n == HOME else 0) for n in range(PARTITIONS)})
    assert not follower.wait_ready(TIP, 0)
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(follower.wait_ready(TIP, SECONDS)))
    waiting.start()
    consumer.script.put([FakeMessage(HOME, 0, SEGMENT)])
    waiting.join(SECONDS)
    assert answers == [True]


def test_wait_ready_ends_if_the_partition_can_never_be_ready(start):
    follower, consumer = start({n: (0, 1 if n == HOME else 0) for n in range(PARTITIONS)})
    consumer.script.put([FakeMessage(HOME, 0, None)])
    assert not follower.wait_ready(TIP, SECONDS)
    follower.close()
    assert not follower.wait_ready(TIP, SECONDS)


def test_callbacks_are_served_before_the_first_request(start):
    follower, consumer = start({0: (0, 0)})
    assert follower.wait_settled(SECONDS)
    assert consumer.polled


def test_end_of_the_partition_makes_ready_without_the_last_records(start):
    follower, consumer = start({n: (0, 3 if n == HOME else 0) for n in range(PARTITIONS)})
    consumer.script.put([FakeMessage(HOME, 3, error=KafkaError._PARTITION_EOF)])
    assert follower.wait_settled(SECONDS)
    assert follower.ready(TIP)


@pytest.mark.parametrize(
    "messages",
    [
        [FakeMessage(HOME, 0, b"\x01\x00\x02" + SEGMENT[3:])],
        [FakeMessage(HOME, 0, b"\x02" + SEGMENT[1:])],
        [FakeMessage(HOME, 0, None)],
        [FakeMessage(HOME, 0, "text")],
        [FakeMessage(HOME, 0, None, key=b"neither schema")],
        [FakeMessage(HOME, 0, SEGMENT, key=b"neither schema")],
        [FakeMessage(HOME, 0, SEGMENT), FakeMessage(HOME, 2, SEGMENT)],
        [FakeMessage(HOME, 0, SEGMENT + b"\0")],
        [FakeMessage(HOME, 1, SEGMENT)],
        [FakeMessage(HOME, 0, SEGMENT), FakeMessage(HOME, 0, SEGMENT)],
        [FakeMessage(HOME, 0, serde.serialize(metadata(0, 9, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED)))],
        [FakeMessage(HOME, 4, error=KafkaError.OFFSET_OUT_OF_RANGE)],
        [FakeMessage(HOME, 4, error=KafkaError._AUTO_OFFSET_RESET)],
    ],
)
def test_an_invalid_record_distrusts_its_partition_only(start, messages):
    other = (HOME + 1) % PARTITIONS
    follower, consumer = start(dict.fromkeys(range(PARTITIONS), (0, 0)), messages)
    consumer.taken.acquire()
    consumer.script.put([FakeMessage(HOME, messages[-1].offset() + 1, SEGMENT)])
    consumer.script.put([])
    consumer.taken.acquire()
    consumer.taken.acquire()
    assert follower.distrusted() == [HOME]
    assert not follower.ready(TIP)
    assert follower.bad_records >= 1
    assert follower._partitions[other].state is follower_module.FollowState.READY


def test_an_event_in_the_wrong_metadata_partition_is_not_applied(start):
    wrong = (HOME + 1) % PARTITIONS
    follower, consumer = start(dict.fromkeys(range(PARTITIONS), (0, 0)), [FakeMessage(wrong, 0, SEGMENT)], [])
    consumer.taken.acquire()
    consumer.taken.acquire()
    assert follower.distrusted() == [wrong]
    assert follower._store.partitions() == []


def test_a_snapshot_record_is_not_an_event(start):
    snapshot = RemoteLogSegmentMetadataSnapshot(
        UUID(int=1), 0, 9, 1, 0, 0, (EpochEntry(0, 0),), 10, None, RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    )
    follower, consumer = start(dict.fromkeys(range(PARTITIONS), (0, 0)), [FakeMessage(0, 0, serde.serialize(snapshot))], [])
    consumer.taken.acquire()
    consumer.taken.acquire()
    assert follower.distrusted() == [0]


def test_transient_connection_errors_change_nothing(start):
    passing = [FakeMessage(HOME, 0, error=KafkaError._TRANSPORT), FakeMessage(99, 0, SEGMENT), FakeMessage(None, None, None)]
    follower, consumer = start(dict.fromkeys(range(PARTITIONS), (0, 0)), passing, [])
    consumer.taken.acquire()
    consumer.taken.acquire()
    assert follower.ready(TIP)
    assert follower.bad_records == 0


def test_waits_for_a_missing_topic_and_a_silent_broker(start):
    clock = PatientClock()
    marks = {"failure": KafkaException(KafkaError(KafkaError._TRANSPORT)), **dict.fromkeys(range(PARTITIONS), (0, 0))}
    follower, consumer = start(marks, clock=clock)
    assert follower.wait_settled(SECONDS)
    assert (clock.waits, len(consumer.metadata_calls)) == (1, 2)
    follower.close()
    follower, consumer = start({"absent": True, **dict.fromkeys(range(PARTITIONS), (0, 0))}, clock=clock)
    assert follower.wait_settled(SECONDS)
    assert (clock.waits, len(consumer.metadata_calls)) == (2, 2)
    assert follower.refused is None


def test_one_that_does_not_recover_ends_at_a_missing_topic(start):
    follower, consumer = start({"absent": True}, recovers=False)
    assert follower.wait_settled(SECONDS)
    assert follower.refused.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    follower.close()
    assert (consumer.closed, consumer.built) == (True, 1)


def test_can_be_closed_while_it_waits(start):
    clock = PatientClock()
    follower, consumer = start({}, clock=clock)
    follower.close()
    assert consumer.closed
    assert not follower.ready(TIP)


def test_can_be_closed_between_two_partitions(start):
    follower = None

    class Closing(FakeConsumer):
        def get_watermark_offsets(self, partition, timeout):
            follower._stop.set()
            return 0, 0

    follower = RemoteLogMetadataFollower({}, RemoteLogMetadataStore(), clock=PatientClock())
    assert follower._watermarks(Closing({0: (0, 0), 1: (0, 0)})) == {}


FATAL = KafkaException(KafkaError(KafkaError._FATAL))
ALL_EMPTY = dict.fromkeys(range(PARTITIONS), (0, 0))


@pytest.mark.parametrize("failure", [FATAL, RuntimeError("defect"), KeyError("defect"), MemoryError()], ids=repr)
def test_any_failure_restarts_all_partitions(start, failure, caplog):
    follower, consumer = start({n: (0, 1 if n == HOME else 0) for n in range(PARTITIONS)}, [FakeMessage(HOME, 0, SEGMENT)])
    assert follower.wait_ready(TIP, SECONDS)
    assert follower._store.partitions() == [TIP]
    consumer.script.put(failure)
    wait_until(lambda: follower.restarts == 1 and consumer.built == 2, "the second consumer")
    assert not follower.wait_ready(TIP, 0)
    assert follower._store.partitions() == []
    consumer.script.put([FakeMessage(HOME, 0, SEGMENT)])
    assert follower.wait_ready(TIP, SECONDS)
    assert follower._store.partitions() == [TIP]
    assert f"following {METADATA_TOPIC} failed; reading it again from the start in" in caplog.text


def test_pauses_between_failures_grow(start):
    clock = PatientClock()
    follower, consumer = start(ALL_EMPTY, clock=clock)
    consumer.failures = {"build": FATAL, "close": FATAL}
    consumer.script.put(FATAL)
    consumer.script.put(FATAL)
    wait_until(lambda: follower.restarts == 3 and consumer.built == 4, "the fourth attempt")
    assert follower.wait_settled(SECONDS)
    assert [longest * 0.75 <= pause <= longest for pause, longest in zip(clock.paused, (1, 2, 4), strict=True)] == [True] * 3


def test_a_fatal_error_of_librdkafka_restarts_the_follower(start):
    class FatalError:
        def fatal(self):
            return True

    class FatalMessage(FakeMessage):
        def error(self):
            return FatalError()

    follower, consumer = start(ALL_EMPTY, [FatalMessage(None, None)])
    wait_until(lambda: follower.restarts == 1 and consumer.built == 2, "the second consumer")


def test_a_follower_that_does_not_recover_ends_with_its_first_failure(start, caplog):
    follower, consumer = start(ALL_EMPTY, [FakeMessage(HOME, 0, b"?")], recovers=False, clock=HastyClock())
    consumer.script.put([])
    consumer.taken.acquire()
    consumer.taken.acquire()
    assert (follower.distrusted(), follower.rereads) == ([HOME], 0)
    assert "no location of this partition is granted" in caplog.text
    consumer.script.put(FATAL)
    follower._thread.join(SECONDS)
    assert not follower.ready(TIP)
    assert (consumer.closed, consumer.built) == (True, 1)
    assert follower.wait_settled(0)


def test_a_distrusted_partition_is_read_again_and_trusted(start):
    marks = {n: (0, 1 if n == HOME else 0) for n in range(PARTITIONS)}
    follower, consumer = start(marks, [FakeMessage(HOME, 0, SEGMENT), FakeMessage(HOME, 7, FINISHED)])
    wait_until(lambda: follower.distrusted() == [HOME], "the doubt")
    assert (follower.rereads, consumer.reassigned) == (0, [])  # a pause comes first
    consumer.watermarks[HOME] = (6, 8)
    follower._pauses[HOME]._until = 0.0
    wait_until(lambda: follower.rereads == 1, "the second reading")
    assert consumer.reassigned == [(METADATA_TOPIC, HOME, 6)]
    assert follower._store.partitions() == []
    assert not follower.ready(TIP)
    consumer.script.put([FakeMessage(HOME, 6, SEGMENT), FakeMessage(HOME, 7, FINISHED)])
    assert follower.wait_ready(TIP, SECONDS)
    assert follower._store.cache(TIP).remote_log_segment_metadata(0, 5) is not None
    assert follower.restarts == 0


def test_a_reread_keeps_events_of_other_metadata_partitions(start):
    follower, consumer = start(ALL_EMPTY, [FakeMessage(HOME, 0, SEGMENT)])
    wait_until(lambda: follower._store.partitions() == [TIP], "the segment")
    other = (HOME + 1) % PARTITIONS
    consumer.script.put([FakeMessage(other, 0, None)])
    wait_until(lambda: follower.distrusted() == [other], "the doubt")
    follower._pauses[other]._until = 0.0
    wait_until(lambda: follower.rereads == 1, "the second reading")
    assert follower._store.partitions() == [TIP]
    assert follower.ready(TIP)


def test_a_failed_reread_of_a_partition_is_retried(start, caplog):
    follower, consumer = start(ALL_EMPTY, clock=HastyClock())
    assert follower.wait_settled(SECONDS)
    consumer.failures = {"watermarks": FATAL}
    consumer.script.put([FakeMessage(HOME, 0, None)])
    wait_until(lambda: follower.rereads >= 1, "the second reading")
    assert follower.wait_ready(TIP, SECONDS)
    assert f"{METADATA_TOPIC}-{HOME} from the start failed, retrying in" in caplog.text
    assert follower.restarts == 0


def test_a_defect_in_applying_a_record_distrusts_its_partition_only(start, monkeypatch, caplog):
    def defective(self, event):
        raise IndexError("defect")

    monkeypatch.setattr(RemoteLogMetadataStore, "apply", defective)
    follower, consumer = start(ALL_EMPTY, [FakeMessage(HOME, 0, SEGMENT)], [])
    consumer.taken.acquire()
    consumer.taken.acquire()
    assert follower.distrusted() == [HOME]
    assert follower.restarts == 0
    assert f"applying the record at offset 0 of {METADATA_TOPIC}-{HOME} failed" in caplog.text


def test_close_is_idempotent_and_allowed_before_the_start(start):
    follower, consumer = start(dict.fromkeys(range(PARTITIONS), (0, 0)))
    follower.close()
    follower.close()
    assert consumer.closed
    assert not follower.ready(TIP)
    RemoteLogMetadataFollower({}, RemoteLogMetadataStore()).close()


def test_a_configuration_that_librdkafka_refuses_raises_at_the_start():
    follower = RemoteLogMetadataFollower({"no.such.setting": 1}, RemoteLogMetadataStore())
    with pytest.raises(KafkaException):
        follower.start()
    follower.close()


class Cluster:
    """librdkafka's mock broker with the metadata topic."""

    def __init__(self):
        self.producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
        broker = self.producer.list_topics(METADATA_TOPIC, timeout=SECONDS).brokers[1]
        self.config = {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}

    def produce(self, *events, partition=None):
        for value in events:
            tip = serde.deserialize(value).topic_id_partition
            number = metadata_partition(tip, PARTITIONS) if partition is None else partition
            self.producer.produce(METADATA_TOPIC, value, partition=number)
        assert self.producer.flush(SECONDS) == 0


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def follow(cluster):
    started = []

    def begin(store):
        follower = RemoteLogMetadataFollower(cluster.config, store)
        started.append(follower)
        follower.start()
        assert follower.wait_settled(SECONDS)
        return follower

    yield begin
    for follower in started:
        follower.close()


def test_librdkafka_reads_a_partition_again_after_a_doubt(cluster, follow, monkeypatch):
    monkeypatch.setattr(follower_module, "_REREAD_SECONDS", (0.01, 1.0))
    cluster.produce(SEGMENT, FINISHED)

    class Store(RemoteLogMetadataStore):
        failed = False

        def apply(self, event, *, keyed=False):
            if not self.failed:
                self.failed = True
                raise IndexError("defect")
            return super().apply(event, keyed=keyed)

    store = Store()
    follower = follow(store)
    wait_until(lambda: follower.ready(TIP), "the second reading")
    assert (follower.rereads, follower.restarts) == (1, 0)
    assert store.cache(TIP).remote_log_segment_metadata(0, 5) is not None


def test_librdkafka_rereads_a_partition_whose_position_was_lost(cluster, follow, monkeypatch):
    monkeypatch.setattr(follower_module, "_REREAD_SECONDS", (0.01, 1.0))
    cluster.produce(SEGMENT, FINISHED)
    watermarks = RemoteLogMetadataFollower._watermarks

    def beyond(self, consumer):
        return {number: (1000, 1001) if number == HOME else marks for number, marks in watermarks(self, consumer).items()}

    monkeypatch.setattr(RemoteLogMetadataFollower, "_watermarks", beyond)
    store = RemoteLogMetadataStore()
    follower = follow(store)
    wait_until(lambda: follower.ready(TIP), "the second reading")
    assert (follower.rereads, follower.restarts) == (1, 0)
    assert store.cache(TIP).remote_log_segment_metadata(0, 5) is not None


def test_reads_golden_events_from_a_broker(cluster, follow):
    cluster.produce(*(value for _, value in golden_records()))
    store = RemoteLogMetadataStore()
    follower = follow(store)
    assert follower.distrusted() == []
    assert store.partitions() == golden_metadata().partitions()
    for tip in store.partitions():
        assert follower.ready(tip)
        expected = golden_metadata().cache(tip).list_all_remote_log_segments()
        assert store.cache(tip).list_all_remote_log_segments() == expected


def test_continues_with_events_that_arrive_later(cluster, follow):
    arrived = threading.Event()

    class Store(RemoteLogMetadataStore):
        def apply(self, event, *, keyed=False):
            applied = super().apply(event, keyed=keyed)
            arrived.set()
            return applied

    store = Store()
    follower = follow(store)
    assert follower.ready(TIP)
    assert store.cache(TIP) is None
    cluster.produce(SEGMENT)
    assert arrived.wait(SECONDS)
    assert store.cache(TIP) is not None


def last_record(offset, leader_epoch=3):
    """The record before the offset of :func:`loaded_at`."""
    return FakeMessage(HOME, offset - 1, SEGMENT, leader_epoch=leader_epoch)


def loaded_at(offset, packed):
    positions = {HOME: MetadataPosition(offset, 3)}
    return MetadataSnapshot(SnapshotOrigin("c", METADATA_TOPIC, UUID(int=1), PARTITIONS), 0, positions, {TIP: packed})


def test_continues_where_the_snapshot_ends(start):
    snapshots = FakeSnapshots(loaded_at(1, packed_segment()))
    marks = {n: (0, 2 if n == HOME else 0) for n in range(PARTITIONS)}
    follower, consumer = start(marks, [last_record(1), FakeMessage(HOME, 1, FINISHED, leader_epoch=4)], snapshots=snapshots)
    assert follower.wait_settled(SECONDS)
    assert (METADATA_TOPIC, HOME, 0) in consumer.assigned
    assert follower._store.cache(TIP).remote_log_segment_metadata(0, 5) is not None
    positions, ((tip, contents),) = snapshots.written.get(timeout=SECONDS)
    assert positions == {n: MetadataPosition(2, 4) if n == HOME else MetadataPosition(0) for n in range(PARTITIONS)}
    assert (tip, contents) == (TIP, follower._store.cache(TIP).contents())
    follower.close()
    assert snapshots.closed
    assert snapshots.opened == [PARTITIONS]


def test_a_snapshot_is_used_once_its_last_record_is_read_again(start):
    marks = {n: (0, 2 if n == HOME else 0) for n in range(PARTITIONS)}
    follower, consumer = start(marks, [], snapshots=FakeSnapshots(loaded_at(2, packed_segment())))
    assert consumer.taken.acquire(timeout=SECONDS)
    assert (follower.not_ready(), follower.ready(TIP)) == ([HOME], False)
    consumer.script.put([last_record(2)])
    assert follower.wait_ready(TIP, SECONDS)
    assert len(follower._store.cache(TIP).list_all_remote_log_segments()) == 1
    assert (follower._store.dropped_events, follower._store.cache(TIP).version) == (0, 0)


def test_librdkafka_rereads_a_partition_truncated_below_its_snapshot(cluster, monkeypatch):
    monkeypatch.setattr(follower_module, "_REREAD_SECONDS", (0.01, 1.0))
    cluster.produce(SEGMENT, FINISHED)
    truncated = FakeSnapshots(loaded_at(2, packed_segment()))  # its last record has an epoch that no record has
    used = []

    class Store(RemoteLogMetadataStore):
        def apply(self, event, *, keyed=False):
            used.append(follower.ready(TIP))
            return super().apply(event, keyed=keyed)

    store = Store()
    follower = RemoteLogMetadataFollower(cluster.config, store, snapshots=truncated)
    follower.start()
    try:
        wait_until(lambda: follower.rereads, "the second reading")
        assert follower.wait_ready(TIP, SECONDS)
        assert (used, follower.bad_records) == ([False, False], 1)
        assert store.cache(TIP).remote_log_segment_metadata(0, 5) is not None
    finally:
        follower.close()


def test_a_snapshot_whose_last_record_is_gone_is_not_used(start):
    """Compaction may have removed it: the end of the partition comes without it."""
    marks = {n: (0, 2 if n == HOME else 0) for n in range(PARTITIONS)}
    gone = FakeMessage(HOME, 2, error=KafkaError._PARTITION_EOF)
    follower, _ = start(marks, [gone], snapshots=FakeSnapshots(loaded_at(2, packed_segment())))
    wait_until(lambda: follower.bad_records, "the doubt")
    assert not follower.ready(TIP)


def test_no_snapshot_is_written_before_all_is_read(start):
    snapshots = FakeSnapshots()
    _, consumer = start({n: (0, 2 if n == HOME else 0) for n in range(PARTITIONS)}, snapshots=snapshots)
    consumer.script.put([FakeMessage(HOME, 0, SEGMENT)])
    assert consumer.taken.acquire(timeout=SECONDS)
    consumer.script.put([])
    assert consumer.taken.acquire(timeout=SECONDS)
    assert snapshots.written.empty()


def test_a_distrusted_partition_is_not_in_a_snapshot(start):
    snapshots = FakeSnapshots()
    marks = {n: (0, 1 if n == HOME else 0) for n in range(PARTITIONS)}
    start(marks, [FakeMessage(HOME, 0, b"\1\7\0")], snapshots=snapshots)
    positions, _ = snapshots.written.get(timeout=SECONDS)
    assert sorted(positions) == [n for n in range(PARTITIONS) if n != HOME]


def test_a_damaged_part_of_a_snapshot_is_read_again(start):
    snapshots = FakeSnapshots(loaded_at(2, packed_segment(damaged=True)))
    marks = {n: (0, 2 if n == HOME else 0) for n in range(PARTITIONS)}
    follower, consumer = start(marks, [last_record(2)], snapshots=snapshots, clock=HastyClock())
    assert follower.wait_settled(SECONDS)
    with pytest.raises(RemoteLogMetadataError):
        follower._store.cache(TIP)
    wait_until(lambda: consumer.reassigned, "the second reading")
    assert consumer.reassigned == [(METADATA_TOPIC, HOME, 0)]
    consumer.script.put([FakeMessage(HOME, 0, SEGMENT), FakeMessage(HOME, 1, FINISHED)])
    wait_until(lambda: follower.ready(TIP), "the partition to be ready")
    assert follower._store.cache(TIP).remote_log_segment_metadata(0, 5) is not None
    assert follower.bad_records == 1


def test_a_restart_after_a_failure_reads_from_the_start(start):
    snapshots = FakeSnapshots(loaded_at(2, packed_segment()))
    marks = {n: (0, 2 if n == HOME else 0) for n in range(PARTITIONS)}
    follower, consumer = start(marks, [last_record(2)], snapshots=snapshots)
    assert follower.wait_settled(SECONDS)
    consumer.script.put(RuntimeError("defect"))
    wait_until(lambda: follower.restarts and (METADATA_TOPIC, HOME, 0) in consumer.assigned, "the second start")
    assert (snapshots.loads, len(snapshots.opened)) == (1, 2)
