"""The checker works: its named invariants catch every planted bug, and the same scenarios without bugs violate nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_remote_client import arguments
from tests.faults.bug_scenarios import SCENARIOS
from tests.faults.bugs import BUGS, Bug
from tests.faults.stage import PATIENCE_SECONDS, Stage
from tests.support.history import History, Outage
from tests.support.invariants.checker import INVARIANTS, violations
from tests.support.planting import MisfitError, NoSuchPlaceError, planted
from tests.support.run_summary import RecordProperty

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture
def stage(standing: Stage) -> Iterator[Stage]:
    standing.reset()
    yield standing
    standing.tidy()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_without_a_bug_violates_nothing(stage: Stage, name: str) -> None:
    evidence = SCENARIOS[name](stage, PATIENCE_SECONDS)
    assert evidence.delivered
    assert [str(breach) for breach in evidence.all()] == []


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_caught(stage: Stage, bug: Bug, record_property: RecordProperty) -> None:
    record_property("caught", 1)
    for patience in (bug.patience, PATIENCE_SECONDS):
        with planted(bug.place, bug.make) as plant:
            evidence = SCENARIOS[bug.scenario](stage, patience)
        found = evidence.all()
        violated = {breach.invariant for breach in found}
        if plant.ran and bug.caught_by <= violated:  # otherwise the scenario ended before that, on a busy machine
            break
    assert plant.ran, "the bug was in nobody's way"
    assert bug.caught_by <= violated, f"violated only: {[str(breach) for breach in found[:5]]}"
    others = violated & set(INVARIANTS) - bug.caught_by - bug.also
    assert not others, [str(breach) for breach in found if breach.invariant in others]


def test_every_invariant_fires_on_a_real_run_with_a_planted_bug() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 30
    assert {bug.scenario for bug in BUGS} <= set(SCENARIOS)
    assert {name for bug in BUGS for name in bug.caught_by if name in INVARIANTS} == set(INVARIANTS)


def test_an_outage_excuses_only_its_own_duration(stage: Stage) -> None:
    evidence = SCENARIOS["outage"](stage, PATIENCE_SECONDS)
    assert evidence.all() == []
    outages = evidence.history.of(Outage)
    assert [event.over for event in outages] == [False, True]
    unexcused = History.merged(History(event for event in evidence.history if event not in outages))
    assert {breach.invariant for breach in violations(unexcused, evidence.oracle)} == {"I9"}


def test_a_bug_that_does_not_take_its_arguments_is_refused() -> None:
    there = "kafka_remote_client.arguments:duration"
    misfit = pytest.raises(MisfitError, match="too many positional arguments")
    with misfit, planted(there, lambda _: lambda: None), pytest.raises(TypeError):
        arguments.duration(1.0, "seconds")
    with planted(there, lambda _: lambda seconds, name: -seconds):
        assert arguments.duration(1.0, "seconds") == -1.0


@pytest.mark.parametrize(
    "place",
    ["kafka_remote_client.nowhere:x", "kafka_remote_client.errors:nothing", "kafka_remote_client.errors:Action.__module__"],
)
def test_a_bug_in_a_missing_function_is_refused(place: str) -> None:
    with pytest.raises(NoSuchPlaceError), planted(place, lambda _: lambda: None):
        pass
