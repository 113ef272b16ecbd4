"""A fixed sample of ``make simulate``, and the properties of the simulation: it repeats, finds bugs and explains them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead
from kafka_remote_client.fetch.partition_read import Locate, PartitionRead
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import ByteRange
from kafka_remote_client.shim.signing import SignatureRefusedError, SignedRequest, UrlSigner
from tests.simulation import bugs
from tests.simulation.bugs import SIMULATED, searched
from tests.simulation.judge import ViolationError
from tests.simulation.occurrences import SOMETIMES, Occurrences
from tests.simulation.own_bugs import own_bugs
from tests.simulation.run import main
from tests.simulation.scenario import BROKER_FAULTS, CONSUMER_FAULTS, FAULTS, Scenario, scenario_of
from tests.simulation.shrink import Failure, failure_of, shrunk, story_of
from tests.simulation.world import World
from tests.support.planting import planted

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = range(64)
LOST_RECORDS = [Scenario(seed, unclean_elections=0.3) for seed in (31, 32)]
COOPERATIVE_GROUP = Scenario(
    0,
    in_flight=1,
    consumers=2,
    grouped=True,
    cooperative=True,
    coordinator_fails=0.1,
    calls=0.03,
    crashes=0.003,
    unclean_elections=0.2,
    leader_crashes=0.05,
)
REGRESSIONS = {
    "a retry waited for memory that its own later ranges held": Scenario(
        5162,
        in_flight=2,
        memory=16 << 10,
        grant_bytes=16 << 10,
        hedge_percent=0,
        breaker_failures=50,
        cut=0.15,
        urls_expire=0.01,
    ),
    "batches below a segment's first leader epoch looked damaged": Scenario(1, elections=0.2, segments_deleted=0.2),
    "a location was granted of records that an unclean election had lost": LOST_RECORDS[0],
    "a log cut at a segment's first offset forgot its open transactions": Scenario(
        4116,
        partitions=1,
        memory=4 << 10,
        grant_bytes=4 << 10,
        range_bytes=2 << 10,
        hedge_percent=0,
        breaker_failures=2,
        takes_seconds=0.1,
        unclean_elections=0.2,
        leader_crashes=0.2,
        recreations=0.2,
        follower_fails=0.2,
    ),
    "an unclean election changed the outcome of a transaction in the tier": Scenario(
        700844,
        partitions=1,
        in_flight=2,
        grant_bytes=4 << 10,
        retries=0,
        hedge_percent=0,
        breaker_failures=50,
        latency=0.001,
        damaged=0.15,
        unclean_elections=0.05,
    ),
    "the base offset of the only batch of a range was damaged": Scenario(
        701175,
        settled=True,
        partitions=1,
        in_flight=1,
        memory=4 << 10,
        range_bytes=2 << 10,
        hedge_percent=0,
        breaker_failures=50,
        latency=0.001,
        takes_seconds=0.1,
        url_seconds=2.0,
        stalled=0.3,
        damaged=0.3,
        locations_pending=0.1,
    ),
    "records were dropped by the marker of an earlier leader": Scenario(
        5009,
        partitions=4,
        memory=16 << 10,
        range_bytes=2 << 10,
        hedge_percent=0,
        breaker_failures=2,
        latency=0.001,
        cut=0.15,
        locations_bad=0.15,
        unclean_elections=0.2,
        lookups_slow=0.2,
    ),
    "the judge did not follow a read past aborted records before the topic was created again": Scenario(
        1923368274,
        partitions=1,
        in_flight=2,
        grant_bytes=4 << 10,
        range_bytes=700,
        hedge_percent=0,
        url_seconds=2.0,
        hung=0.03,
        unavailable=0.01,
        locations_throttled=0.01,
        grouped=True,
        unclean_elections=0.2,
        recreations=0.2,
        follower_fails=0.05,
    ),
    "the model's coordinator handled a commit before an earlier one of the same member": Scenario(
        151685892,
        partitions=4,
        in_flight=1,
        range_bytes=2 << 10,
        hedge_percent=0,
        breaker_failures=2,
        latency=0.1,
        url_seconds=2.0,
        consumers=2,
        grouped=True,
        calls=0.03,
        crashes=0.05,
    ),
    "a GET that came after its time-out closed a breaker, because no read was left": Scenario(
        43478,
        settled=True,
        partitions=1,
        in_flight=2,
        memory=16 << 10,
        grant_bytes=16 << 10,
        retries=4,
        hedge_percent=50,
        breaker_failures=2,
        takes_seconds=0.0001,
        decode_seconds=0.05,
        url_seconds=2.0,
        hung=0.1,
        cut=0.3,
        segments_deleted=0.03,
    ),
    "an aborted record came, whose marker was below the tier's end but not in the tier": Scenario(
        5077,
        partitions=1,
        in_flight=1,
        memory=4 << 10,
        grant_bytes=16 << 10,
        hedge_percent=0,
        breaker_failures=50,
        locations_pending=0.01,
        unclean_elections=0.2,
    ),
    "the checker missed records below an end that had been deleted": attrs.evolve(
        COOPERATIVE_GROUP,
        seed=25725,
        retries=0,
        latency=0.1,
        takes_seconds=0.0001,
        throttled=0.03,
        urls_expire=0.01,
        segments_deleted=0.15,
        seeks=0.01,
        lookups_slow=0.2,
    ),
    "a record was left out when direct fetch was turned off after a hand-over to a shorter log": Scenario(
        2087971309,
        partitions=3,
        in_flight=1,
        memory=4 << 10,
        grant_bytes=16 << 10,
        hedge_percent=0,
        breaker_failures=2,
        takes_seconds=0.1,
        unavailable=0.03,
        forbidden=0.03,
        consumers=2,
        grouped=True,
        coordinator_fails=0.1,
        calls=0.3,
        crashes=0.05,
        elections=0.05,
        unclean_elections=0.05,
        recreations=0.2,
    ),
    "a batch was damaged and the topic was created again, and librdkafka was sought to the damage without end": Scenario(
        1736304382,
        in_flight=1,
        memory=64 << 10,
        grant_bytes=16 << 10,
        range_bytes=2048,
        retries=0,
        hedge_percent=0,
        breaker_failures=2,
        latency=0.1,
        cut=0.15,
        forbidden=0.15,
        damaged=0.15,
        consumers=3,
        coordinator_fails=0.1,
        calls=0.03,
        recreations=0.2,
        follower_fails=0.2,
    ),
    "a read from the beginning began where the log had begun when its bounds were last asked": Scenario(
        3134209009,
        partitions=1,
        in_flight=1,
        memory=4 << 10,
        grant_bytes=4 << 10,
        range_bytes=700,
        hedge_percent=0,
        breaker_failures=50,
        latency=0.1,
        segments_deleted=0.15,
        consumers=2,
        calls=0.03,
        crashes=0.003,
        recreations=0.05,
    ),
    "the judge did not know that librdkafka begins in a new log where the old one began": Scenario(
        2481970189,
        partitions=3,
        in_flight=8,
        memory=16 << 10,
        grant_bytes=4 << 10,
        range_bytes=2 << 10,
        retries=0,
        hedge_percent=0,
        breaker_failures=2,
        latency=0.001,
        takes_seconds=0.1,
        throttled=0.01,
        locations_bad=0.15,
        segments_deleted=0.15,
        consumers=1,
        calls=0.3,
        crashes=0.02,
        leader_crashes=0.2,
        recreations=0.2,
        denials=0.2,
        lookups_slow=0.2,
    ),
    "the model of librdkafka forgot its position at a cut, while a call had taken records below it": attrs.evolve(
        COOPERATIVE_GROUP,
        seed=1783824420,
        memory=16 << 10,
        grant_bytes=16 << 10,
        range_bytes=700,
        hedge_percent=0,
        latency=0.001,
        recreations=0.2,
        follower_fails=0.2,
    ),
    "librdkafka had gone back to a cut, and its last start was read from the tier again": Scenario(
        6000191002,
        partitions=3,
        grant_bytes=16 << 10,
        range_bytes=700,
        retries=0,
        hedge_percent=0,
        takes_seconds=0.0001,
        stalled=0.03,
        consumers=3,
        calls=0.03,
        elections=0.05,
        recreations=0.3,
        denials=0.05,
        follower_fails=0.2,
    ),
}
"""Scenarios that have failed once."""
BUG = "reader: two threads decode ranges of one partition"
FAILING = 3
"""A scenario that fails if a block is lost."""
_PLACE = "kafka_remote_client.fetch.partition_read:PartitionRead._range_done"


def loses_a_block(original: Callable[..., None]) -> Callable[..., None]:
    """A bug: the last block of a range is not delivered."""

    def wrong(read: PartitionRead, grant: GrantRead, decoded: RangeRead) -> None:
        original(read, grant, decoded)
        if read._ready:
            read._ready.pop()

    return wrong


def always_on_the_lineage(_original: Callable[..., object]) -> Callable[..., object]:
    """A bug: the shim does not ask whether a segment is of the leader's log."""

    def wrong(*_: object, **__: object) -> Iterator[object]:
        yield from ()

    return wrong


def ignores_expiry(original: Callable[..., SignedRequest]) -> Callable[..., SignedRequest]:
    """A bug: the store opens a URL that has expired."""

    def wrong(signer: UrlSigner, method: str, target: str, headers: dict[str, str]) -> SignedRequest:
        try:
            return original(signer, method, target, headers)
        except SignatureRefusedError:
            first, last = headers["range"].removeprefix("bytes=").split("-")
            return SignedRequest(target.partition("?")[0][1:], ByteRange(int(first), int(last) + 1))

    return wrong


def loses_a_record(original: Callable[..., None]) -> Callable[..., None]:
    """A bug: records that were taken back are read again from the second on."""

    def wrong(flow: PartitionFlow, offset: int) -> None:
        original(flow, offset + 1)

    return wrong


def skips_a_record(original: Callable[..., None]) -> Callable[..., None]:
    """A bug: the broker continues one offset too late."""

    def wrong(flow: PartitionFlow, end: ReadEnd) -> None:
        original(flow, attrs.evolve(end, next_offset=end.next_offset + 1))

    return wrong


def reads_on_locally(original: Callable[..., Any]) -> Callable[..., Any]:
    """A bug: a read asks for a location wherever the local log begins."""

    def wrong(command: Locate, *bounds: object) -> object:
        before, command.read.stop_at_local = command.read.stop_at_local, False
        try:
            return original(command, *bounds)
        finally:
            command.read.stop_at_local = before

    return wrong


def finds_damage(_original: Callable[..., object]) -> Callable[..., object]:
    """A bug: all bytes look damaged."""

    def wrong(*_: object, **__: object) -> None:
        raise CorruptRecordError("planted")

    return wrong


def fails(_original: Callable[..., None]) -> Callable[..., None]:
    """A bug: an unexpected exception."""

    def wrong(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    return wrong


def test_a_fixed_sample_breaks_no_rule() -> None:
    seen = Occurrences()
    for scenario in (*map(scenario_of, SAMPLE), *REGRESSIONS.values()):
        World(scenario, seen).run()
    assert len(seen) > len(SOMETIMES) * 4 // 5, f"not seen: {seen.missing}"


def test_a_scenario_runs_in_the_same_way_in_each_process() -> None:
    code = (
        "from tests.simulation.world import World; from tests.simulation.scenario import Scenario\n"
        "kinds = {'unclean_elections': 0.3}, {'settled': True, 'cut': 0.3}, {'consumers': 2, 'grouped': True}\n"
        "for one in (Scenario(3, steps=300, **kind) for kind in kinds):\n"
        "    world = World(one); world.run(); print(world.story)"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0]) > 10_000


def test_a_planted_bug_is_found_shrunk_and_told() -> None:
    with planted(_PLACE, loses_a_block) as plant:
        failure = next(found for seed in range(50) if (found := failure_of(scenario_of(seed))) is not None)
        small = shrunk(failure)
    assert plant.ran
    assert small.rule == failure.rule
    assert small.events <= failure.events
    assert not any(getattr(small.scenario, fault) for fault in FAULTS), "the bug needs no fault"
    text = story_of(small, lines=1_000)
    assert "opens a read at offset" in text
    assert text.endswith(small.text)


def test_an_exception_of_the_product_is_a_failure() -> None:
    with planted(_PLACE, fails):
        failure = failure_of(Scenario(1))
    assert isinstance(failure, Failure)
    assert (failure.rule, failure.text) == ("RuntimeError", "RuntimeError: planted")


_STAGES = [
    *((fault, Scenario(11, steps=200)) for fault in FAULTS),
    *((fault, Scenario(11, steps=200, consumers=2, grouped=True)) for fault in CONSUMER_FAULTS),
    *((fault, Scenario(11, steps=200)) for fault in BROKER_FAULTS),
    *((fault, Scenario(11, steps=200, settled=True)) for fault in FAULTS),
]


@pytest.mark.parametrize(("fault", "plain"), _STAGES, ids=[f"{fault}{'-settled' * one.settled}" for fault, one in _STAGES])
def test_each_fault_makes_a_difference(fault: str, plain: Scenario) -> None:
    stories = []
    for scenario in (plain, attrs.evolve(plain, **{fault: 0.3})):
        world = World(scenario)
        world.run()
        stories.append(world.story)
    assert stories[0] != stories[1]


@pytest.mark.parametrize(
    ("place", "bug"),
    [
        ("kafka_remote_client.location.leader_check:LeaderCheck._check_lineage", always_on_the_lineage),
        ("kafka_remote_client.tiered_kafka.fetches:_diverging", lambda _original: lambda _log, _asked: None),
    ],
)
def test_a_location_of_lost_records_is_found(place: str, bug: Callable[..., Any]) -> None:
    with planted(place, bug) as plant:
        failure = next(found for scenario in LOST_RECORDS if (found := failure_of(scenario)) is not None)
    assert plant.ran
    assert failure.rule == "J15"


def test_good_bytes_that_look_damaged_are_found() -> None:
    with planted("kafka_remote_client.fetch.grant_read:GrantRead._feed", finds_damage) as plant:
        failure = failure_of(Scenario(1, settled=True))
    assert plant.ran
    assert failure is not None
    assert failure.rule == "J18"


def test_a_read_that_goes_on_in_the_local_log_is_found() -> None:
    scenarios = [Scenario(seed, settled=True) for seed in range(20)]
    with planted("kafka_remote_client.fetch.locate:_question", reads_on_locally) as plant:
        failure = next(found for scenario in scenarios if (found := failure_of(scenario)) is not None)
    assert plant.ran
    assert failure.rule == "J19"


def test_a_worker_that_counts_as_stuck_for_good_is_found() -> None:
    world = World(Scenario(1, settled=True))
    world.engines[0].scheduler.flying._given_up = 1
    with pytest.raises(ViolationError, match="J8: at the end 1 workers count as stuck"):
        world.run()


def test_a_settled_world_needs_no_shim() -> None:
    world = World(Scenario(6, settled=True, segments_deleted=0.3))
    world.run()
    assert world.seen["aborted-across-grants"] > 0
    assert world.seen["log-start-passed"] > 0
    assert not any(world.shim.counters.snapshot().values())


def test_a_location_for_a_client_without_read_is_found() -> None:
    scenario = Scenario(1, denials=0.5)
    with planted("tests.simulation.shim:_forbidden", lambda _original: lambda answer, _version: answer) as plant:
        failure = failure_of(scenario)
    assert plant.ran
    assert failure is not None
    assert failure.rule == "J16"


def test_a_store_that_opens_expired_urls_is_found() -> None:
    scenario = Scenario(1, url_seconds=0.2, latency=0.1, stalled=0.1)
    with planted("kafka_remote_client.shim.signing:UrlSigner.verify", ignores_expiry) as plant:
        failure = failure_of(scenario)
    assert plant.ran
    assert failure is not None
    assert failure.rule == "J17"


@pytest.mark.parametrize("grouped", [False, True])
def test_a_bug_of_the_consumer_breaks_an_invariant(grouped: bool) -> None:
    plain = Scenario(0, partitions=2, consumers=2, grouped=grouped, calls=0.3, takes_seconds=0.005)
    scenarios = [attrs.evolve(plain, seed=seed) for seed in range(40)]
    with planted("kafka_remote_client.consumer.partition_flow:PartitionFlow.take_back", loses_a_record) as plant:
        failure = next(found for scenario in scenarios if (found := failure_of(scenario)) is not None)
    assert plant.ran
    assert failure.rule in {"I1", "I4"}
    calls = " pauses ", " seeks ", " assigns itself "
    assert any(call in text for _, text, _ in failure.story for call in calls)


REPLACED = [
    Scenario(seed, partitions=2, consumers=2, grouped=seed % 2 == 0, calls=0.1, unclean_elections=0.2, recreations=0.2)
    for seed in range(7)
]
"""Scenarios of consumers whose logs are cut, and whose topic is created again."""


def test_consumers_go_on_in_a_log_that_replaces_theirs() -> None:
    seen = Occurrences()
    for scenario in REPLACED:
        World(scenario, seen).run()
    assert all(seen[name] > 0 for name in ("broker-went-back", "consumer-changed-log", "topic-recreated", "tier-diverged"))


def test_a_record_that_is_lost_where_a_log_is_replaced_is_found() -> None:
    with planted("kafka_remote_client.consumer.partition_flow:PartitionFlow.ended", skips_a_record) as plant:
        failure = next(found for scenario in REPLACED if (found := failure_of(scenario)) is not None)
    assert plant.ran
    assert failure.rule in {"I4", "I8"}


def test_an_unknown_occurrence_is_an_error() -> None:
    with pytest.raises(KeyError):
        Occurrences().saw("something")


def test_a_world_in_which_no_client_goes_on_is_found() -> None:
    world = World(Scenario(1, steps=5_000, latency=2.0))
    for engine in world.engines:
        engine.scheduler.next_command = lambda _now: None
        engine.scheduler.patience = lambda _now, _longest: None
    with pytest.raises(ViolationError, match="J9: nothing "):
        world.run()


def test_a_world_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.simulation.world._MOST_EVENTS", 100)
    with pytest.raises(ViolationError, match="J9: the world does not end within 100 events"):
        World(Scenario(1, settled=True)).run()


def never_ends(_scenario: object) -> None:
    while True:
        pass


def swallows_its_end(scenario: object) -> None:
    """An exception in a callback of the garbage collector goes nowhere."""
    with suppress(BaseException):
        never_ends(scenario)
    never_ends(scenario)


@pytest.mark.parametrize("world", [never_ends, swallows_its_end])
def test_a_search_ends_in_the_middle_of_a_world(world: Callable[[object], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bugs, "plant", lambda _bug: None)
    monkeypatch.setattr(bugs, "failure_of", world)
    assert bugs._search(own_bugs().popitem()[0], 0, 0.05) is None


def test_an_engine_that_looks_for_work_without_a_pause_is_found() -> None:
    world = World(Scenario(1, settled=True))
    for engine in world.engines:
        engine.scheduler.patience = lambda _now, _longest: 0.0
    with pytest.raises(ViolationError, match="J9: idle workers look for work 10000 times in a row"):
        world.run()


def test_the_command_tells_how_often_each_event_was_seen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.5", "--seed", "7"]) == 0
    out = capsys.readouterr().out
    assert all(f"{name}: {meaning}" in out for name, meaning in SOMETIMES.items())
    assert " simulate commit=" in out


def test_the_command_fails_with_the_story_of_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with planted(_PLACE, loses_a_block):
        assert main(["--seconds", "0.1", "--seed", str(FAILING)]) == 1
    assert main(["--scenario", str(FAILING)]) == 0
    assert "scenario: seed=" in capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "is_found"), [(60.0, True), (0.0, False)])
def test_a_bug_of_one_line_is_found(seconds: float, is_found: bool) -> None:
    assert (searched(BUG, 0, seconds) is not None) == is_found


def test_each_own_bug_changes_one_place() -> None:
    planted_bugs = own_bugs()
    assert len({bug.name for bug in planted_bugs}) == len(planted_bugs) >= 40
    assert {bug.name for bug in planted_bugs if bug.source.count(bug.old) != 1 or bug.module not in SIMULATED} == set()


def test_a_search_that_fails_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no such bug"):
        searched("no such bug", 0, 1.0)
