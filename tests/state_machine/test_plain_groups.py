"""The checks of groups with direct members also hold for groups of plain members, except for rare librdkafka failures.

A campaign of its own for that reason: it is about the judgement, not about this product.
"""

from __future__ import annotations

import pytest

from tests.state_machine.groups import GroupWorld, run_groups
from tests.support.group_settings import PROTOCOLS
from tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.timeout(600)

EXAMPLES = 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_of_plain_members_pass_the_same_checks(
    kafka_broker: KafkaBroker, group_world: GroupWorld, campaign_seed: int | None, protocol: str
) -> None:
    more = {"campaign": "plain-groups", "seed": campaign_seed, "kinds": ["plain"]}
    run_groups(group_world, protocol, examples=EXAMPLES, number=0, **more)
