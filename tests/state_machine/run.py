"""Runs a state machine: a number of examples with a number of steps from one seed. Prints how many ran.

``make state-machine EXAMPLES=2000`` uses random seeds and shrinks a failing example before it prints it. CI does not:
its examples are the same in every run, and it prints the seed. The last line is for the ledger.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.errors import FlakyFailure, FlakyStrategyDefinition
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.state_machine.broker_world import BrokerWorld, write_world
from tests.state_machine.machine import ConsumerMachine
from tests.state_machine.world import World
from tests.support.artifacts import CACHE
from tests.support.kafka_broker import KafkaBroker
from tests.support.ledger import ledger

__all__ = ["KEPT", "STEPS", "main", "run"]

STEPS = 50
KEPT = CACHE / "hypothesis"
"""Directory where campaigns store failed programs, with one directory for each machine."""


def run(
    machine: type[RuleBasedStateMachine],
    *,
    examples: int,
    number: int,
    shrinks: bool = False,
    steps: int = STEPS,
    kept: Path | None = None,
) -> None:
    """Raises the error of an example, with its steps and the seed in its notes.

    ``kept``: a directory with the programs that failed before. They run first. A program that fails now is added.

    A machine appends its violations to ``failures``. Hypothesis repeats a failed program. If the repetition draws less,
    because it fails earlier, Hypothesis raises only that complaint: then the recorded violation is raised instead.
    """
    failures: list[AssertionError] = []
    again = type(machine.__name__, (machine,), {"failures": failures})
    seed(number)(again)
    config = settings(
        max_examples=examples + 1,  # the first example is trivial: it repeats the first command
        stateful_step_count=steps,
        database=None if kept is None else DirectoryBasedExampleDatabase(kept),
        deadline=None,
        report_multiple_bugs=False,
        verbosity=Verbosity.normal,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.reuse, Phase.generate, Phase.shrink) if shrinks else (Phase.reuse, Phase.generate),
    )
    try:
        # Hypothesis sometimes ends an example early to learn how short it can be. Only shrinking needs that.
        run_state_machine_as_test(again, settings=config, _min_steps=0 if shrinks else steps - 1)
    except FlakyFailure as once:
        # Hypothesis repeats a failed program to report it. It is a failure even if the repetition passes.
        error = once.exceptions[0]
        for note in (
            *getattr(once, "__notes__", ()),
            f"seed {number}, {examples} examples of {steps} steps; passed when run again",
        ):
            error.add_note(note)
        raise error from None
    except FlakyStrategyDefinition as complaint:
        error = failures[0] if failures else complaint
        error.add_note(f"seed {number}, {examples} examples of {steps} steps; failed elsewhere when run again")
        raise error from None
    except BaseException as error:
        error.add_note(f"seed {number}, {examples} examples of {steps} steps")
        raise


def _on_a_broker(stack: ExitStack, directory: Path) -> World:
    broker = KafkaBroker(directory)
    stack.callback(broker.destroy)
    broker.start()
    write_world(broker)
    return BrokerWorld(broker)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make state-machine", description=__doc__)
    parser.add_argument("--examples", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--broker", action="store_true", help="on a real broker, with transactions on both tiers")
    parser.add_argument("--as-found", action="store_true", help="show a failing program at once, as long as it is")
    asked = parser.parse_args(arguments)
    number = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        world = stack.enter_context(_on_a_broker(stack, directory) if asked.broker else World(directory / "tier"))
        machine = type("Machine", (ConsumerMachine,), {"world": world})
        what = "state-machine-broker" if asked.broker else "state-machine"
        failures = 0
        try:
            run(machine, examples=asked.examples, number=number, shrinks=not asked.as_found, kept=KEPT / what)
        except Exception as error:
            failures = 1
            print("\n".join([str(error), *getattr(error, "__notes__", ())]), file=sys.stderr)
        counted = {"steps": ConsumerMachine.steps, "from_store": ConsumerMachine.from_store}
        ledger(what, seed=number, examples=asked.examples, **counted, failures=failures)
    return failures


if __name__ == "__main__":
    sys.exit(main())
