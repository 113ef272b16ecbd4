"""Every fault of a store, with every fetcher, isolation level, poll and consume: the records equal the oracle's.

A cell injects its fault, reads the whole stream with the consumer under test, and asserts that the fault fired, that the
history satisfies every invariant against a plain consumer's, and that only permitted fallbacks happened. A fault has
fired if it changed an answer (tests/faults/observed.py). Controls inject nothing: every answer must be
the true one, and they are counted separately. Each scenario runs with the pairs of kind, isolation level and call;
``KAFKA_REMOTE_CELLS=all`` runs all combinations.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client import Consumer
from tests.faults.bench import Bench, Rig
from tests.faults.scenario import Scenario
from tests.faults.shim_answers import SHIM_ANSWERS
from tests.faults.store_bytes import STORE_BYTES
from tests.faults.store_grants import STORE_GRANTS
from tests.faults.table import SCENARIOS, STREAMS
from tests.support.embedded_topics import by_consume, by_poll, direct_settings, read_to_ends
from tests.support.fetcher_settings import of_its_fetcher
from tests.support.history import Fired, History
from tests.support.invariants.checker import check
from tests.support.measured import Holdings, measured
from tests.support.recorder import recorded
from tests.support.run_summary import RecordProperty

ATTEMPTS = 3
"""If a consumer got no location in time because the machine is busy, no fault happened, and it reads again."""
CALLS = {"poll": by_poll, "consume": by_consume}
BUFFER_BYTES = 4 << 20
MOST_BYTES = 2 * BUFFER_BYTES
"""Decoding needs memory beyond the budget."""


@attrs.frozen
class Cell:
    """One test."""

    scenario: Scenario
    kind: str
    isolation: str
    call: str

    def __str__(self) -> str:
        return f"{self.scenario.name}-{self.kind}-{self.isolation.removeprefix('read_')}-{self.call}"


def all_cells() -> list[Cell]:
    return [
        Cell(one, kind, isolation, call)
        for one in SCENARIOS
        for kind in one.kinds
        for isolation in one.isolation
        for call in CALLS
    ]


def pairwise() -> list[Cell]:
    """Enough cells that each pair of values of scenario, kind, isolation level and call occurs in one of them.

    Damaged bytes and unusual grants look the same with each fetcher, so each such scenario runs with one, in rotation.
    """
    calls, by_turns = list(CALLS), (*STORE_BYTES, *STORE_GRANTS, *SHIM_ANSWERS)
    cells = []
    for number, one in enumerate(SCENARIOS):
        kinds = (one.kinds[number % len(one.kinds)],) if one in by_turns else one.kinds
        if len(kinds) == 1:
            kinds *= 2
        for turn, kind in enumerate(kinds):
            isolation = one.isolation[(number + turn) % len(one.isolation)]
            cells.append(Cell(one, kind, isolation, calls[(number // 2 + turn) % 2]))
    return cells


CELLS = all_cells() if os.environ.get("KAFKA_REMOTE_CELLS") == "all" else pairwise()


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patched:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
            patched.delenv(name, raising=False)
        patched.setenv("AWS_ACCESS_KEY_ID", "faults")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "faults-secret-key")
        with Bench(tmp_path_factory.mktemp("bench")) as made:
            for name, make in STREAMS.items():
                made.add_stream(name, make)
            yield made


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_records_equal_the_oracles_under_each_fault(cell: Cell, bench: Bench, record_property: RecordProperty) -> None:
    scenario = cell.scenario
    record_property("cells" if scenario.faults else "controls", 1)
    record_property("faults", list(scenario.faults))
    oracle = bench.oracle(scenario.stream, cell.isolation)
    for _ in range(ATTEMPTS):
        history = History()
        with bench.rig(cell.kind, scenario.stream) as rig:
            scenario.inject(rig)
            metrics = read_stream(cell, bench, rig, history)
            took_place = took_place_as_meant(scenario, rig)
        for number in scenario.faults if took_place else ():
            history.add(Fired, fault=number)
        check(history, oracle)
        if took_place and not {"location-unavailable", "peer-unreachable"} & set(metrics["remote-fetch-errors-total"]):
            break
    assert took_place, f"no answer was changed: {rig.observed.all()}" if scenario.faults else rig.observed.changes()
    scenario.judge(metrics["remote-fetch-fallbacks-total"])
    note(cell)


def took_place_as_meant(scenario: Scenario, rig: Rig) -> bool:
    """Returns whether the fault fired; for a control, whether nothing fired and the store was read."""
    if scenario.faults:
        return rig.fired()
    return bool(rig.observed.all()) and not rig.observed.changes() and all(proof() for proof in rig.proofs)


def read_stream(cell: Cell, bench: Bench, rig: Rig, history: History) -> dict[str, Any]:
    """Reads the whole stream and returns the consumer's counters."""
    settings = direct_settings(
        bench.cluster,
        isolation_level=cell.isolation,
        check_crcs=True,
        remote_storage_fetcher_class=cell.kind,
        fetch_remote_connect_timeout_ms=20_000,
        fetch_remote_fallback_backoff_ms=100,
        fetch_remote_buffer_memory=BUFFER_BYTES,
    )

    def make(config: dict[str, Any]) -> Consumer:
        consumer = Consumer(config)
        holdings.of(consumer)
        return consumer

    def take(consumer: Any) -> list[Message]:
        messages = CALLS[cell.call](consumer)
        holdings.look()
        return messages

    holdings = Holdings()
    config = of_its_fetcher({**settings, **rig.config(), **cell.scenario.settings})
    rig.stream.note(history)
    with (
        measured(history, holdings, bound=MOST_BYTES, servers=rig.upstream),
        bench.logged(rig, history),
        recorded(make, config, history) as consumer,
    ):
        consumer.assign([TopicPartition(rig.stream.topic, 0, 0)])
        read_to_ends(consumer, take)
        metrics: dict[str, Any] = consumer.metrics()
    return metrics


def note(cell: Cell) -> None:
    """Writes the cell into the ledger of ``make faults``."""
    ledger = os.environ.get("KAFKA_REMOTE_LEDGER")
    if ledger:
        with (Path(ledger) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps({"cell": str(cell), "faults": cell.scenario.faults}) + "\n")
