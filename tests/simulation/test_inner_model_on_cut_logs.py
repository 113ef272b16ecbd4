"""The model of librdkafka's consumer, compared with librdkafka, while leaders change and logs are cut."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import attrs
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, TopicPartition

from tests.simulation.scenario import Scenario
from tests.simulation.test_inner_model import Program, Twins, twins_in
from tests.simulation.topic_logs import TOPIC

PROGRAMS = range(24)


@attrs.define(eq=False)
class CutProgram(Program):
    """A program in which leaders change, with or without a loss of records. Some places have an epoch, perhaps an old one.

    What librdkafka does depends on when it hears of a new leader or log start, so that the program determines that: it knows
    the leader when it begins, no fetch is in flight when the leader changes, after a pause it reads before anything else, and
    records are deleted only while it fetches.
    """

    elected_in_pause: bool = False

    def _run(self) -> None:
        self.begin("assign", OFFSET_BEGINNING)
        self.unassign()
        super()._run()

    def steps(self) -> list[Callable[[], None]]:
        if self.elected_in_pause:
            return [self.append, self.elect, self.cut, self.hear_nothing, self.commit, self.resume]
        steps = [step for step in super().steps() if self.at_end or step != self.delete_records]
        return steps + [self.elect, self.cut, self.cut] * (self.at_end or self.assigned == self.paused)

    def place(self, offset: int = OFFSET_INVALID) -> TopicPartition:
        log = self.chance.choice(self.partition.versions)
        if not 0 < offset <= log.end or self.chance.random() < 0.5:
            return super().place(offset)
        return TopicPartition(TOPIC, self.partition.number, offset, leader_epoch=log.epoch_before(offset))

    def delete_records(self) -> None:
        super().delete_records()
        self.twins.hear_nothing()

    def elect(self) -> None:
        self.wait_for_fetches()
        self.twins.elect(self.partition)

    def cut(self) -> None:
        """At the end of the log, librdkafka tells where the shorter log ends."""
        self.wait_for_fetches()
        end = self.twins.cut(self.partition)
        self.done.append(f"end {end}")
        if end is not None and self.at_end:
            self.take(1)

    def wait_for_fetches(self) -> None:
        if not self.at_end:
            self.twins.hear_nothing()
        self.elected_in_pause = self.paused

    def resume(self) -> None:
        super().resume()
        if self.elected_in_pause:
            self.elected_in_pause = False
            self.take(1)


@pytest.fixture
def twins(request: pytest.FixtureRequest) -> Iterator[Twins]:
    with twins_in(Scenario(request.param, partitions=1, unclean_elections=0.05)) as both:
        yield both


@pytest.mark.parametrize("twins", PROGRAMS, indirect=True)
def test_the_model_answers_as_librdkafka_on_cut_logs(twins: Twins, request: pytest.FixtureRequest) -> None:
    CutProgram(twins, random.Random(request.node.callspec.params["twins"]), twins.logs.partitions[0]).run()
