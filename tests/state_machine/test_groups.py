"""40 programs of 50 commands each with groups on a real broker, split among test workers.

Seeds are always the same; ``make group-machines`` takes others.
"""

from __future__ import annotations

import pytest

from tests.state_machine.bugs import Bug
from tests.state_machine.group_bugs import BUGS
from tests.state_machine.groups import GroupWorld, run_groups
from tests.support.group_settings import PROTOCOLS
from tests.support.kafka_broker import KafkaBroker
from tests.support.planting import planted
from tests.support.run_summary import RecordProperty

pytestmark = pytest.mark.timeout(600)  # on a loaded machine members take long to join

EXAMPLES = 4
SHARES = [(protocol, number) for number in range(3) for protocol in PROTOCOLS] + [("eager", 3)]
MOST_EXAMPLES_OF_A_BUG = 10


@pytest.mark.parametrize(("protocol", "number"), SHARES)
def test_a_group_gets_every_record_once(
    kafka_broker: KafkaBroker, group_world: GroupWorld, campaign_seed: int | None, protocol: str, number: int
) -> None:
    run_groups(group_world, protocol, examples=EXAMPLES, number=number, campaign="group-machines", seed=campaign_seed)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(
    kafka_broker: KafkaBroker, group_world: GroupWorld, bug: Bug, record_property: RecordProperty
) -> None:
    record_property("caught", 1)
    with planted(bug.place, bug.make) as plant, pytest.raises(AssertionError):
        run_groups(group_world, "cooperative", examples=MOST_EXAMPLES_OF_A_BUG, number=0, kinds=["direct"])
    assert plant.ran


def test_the_suite_runs_the_documented_number_of_programs() -> None:
    assert EXAMPLES * len(SHARES) == 40
