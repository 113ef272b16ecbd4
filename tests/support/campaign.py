"""Runs a campaign of pytest with a seed, and adds its line to the ledger.

::

    python -m tests.support.campaign properties --seed 7 -- -m hypothesis --suite unit    # without --seed a new one
    python -m tests.support.campaign pure-python --fixed -- --suite pure-python           # the same in each run: no seed

``--campaign-seed`` (tests/conftest.py) sets the seed of the tests, ``--randomly-seed`` that of their order. Failing examples
of Hypothesis are kept in ``.cache/hypothesis``. The next run tries them first, with any seed.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
from collections.abc import Sequence

from hypothesis import settings

from kafka_remote_client.clock import SystemClock
from tests.suites import passed_in
from tests.support.ledger import PRODUCT, ROOT, ledger
from tests.support.processes import process_group
from tests.support.under_load import outcome_of

__all__ = ["command_of", "examples", "main"]

_CLOCK = SystemClock()
_SEEDS = 1 << 32


def command_of(rest: Sequence[str], seed: int | None) -> list[str]:
    """The command of pytest with its seeds; ``None`` = the seeds of a commit."""
    seeds = [] if seed is None else [f"--campaign-seed={seed}", f"--randomly-seed={seed}"]
    return [sys.executable, "-X", "dev", "-m", "pytest", *seeds, *rest]


def examples(of_a_commit: int, of_a_campaign: int) -> int:
    """How many examples of Hypothesis a test tries: few of each commit, more in ``make properties``."""
    return of_a_commit if settings.default.derandomize else of_a_campaign


def _ran(command: Sequence[str]) -> tuple[str, int]:
    """Returns the output, which it also prints immediately, and the exit status."""
    lines: list[str] = []
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    with process_group(command, cwd=ROOT, **output) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
        return "".join(lines), process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns pytest's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, epilog="What follows -- is for pytest."
    )
    parser.add_argument("name", help="of the campaign, in the ledger")
    parser.add_argument("--seed", type=int, help="a new one by default")
    parser.add_argument("--fixed", action="store_true", help="nothing depends on a seed")
    given = list(sys.argv[1:] if arguments is None else arguments)
    own = given.index("--") if "--" in given else len(given)
    asked, rest = parser.parse_args(given[:own]), given[own + 1 :]
    seed = None if asked.fixed else secrets.randbelow(_SEEDS) if asked.seed is None else asked.seed
    if seed is not None:
        print(f"SEED={seed}", flush=True)
    started = _CLOCK.monotonic()
    text, status = _ran(command_of(rest, seed))
    _, failed = outcome_of(text, status)
    seconds = round(_CLOCK.monotonic() - started)
    ledger(asked.name, describes=PRODUCT, seed=seed, seconds=seconds, passed=passed_in(text), failed=len(failed))
    return status


if __name__ == "__main__":
    sys.exit(main())
