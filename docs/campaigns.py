"""The tables of figures that campaigns left in ``docs/ledger.jsonl``, for the pages that have marks for them.

A page names campaigns in a mark, ``<!-- campaigns: chaos torture -->``, and gets the last runs of each up to the closing mark.
A run whose code has changed since is marked: its figures say nothing about the code as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.mutants.library import AREAS
from tests.simulation.occurrences import SOMETIMES
from tests.simulation.own_bugs import own_bugs
from tests.support.ledger import ROOT, RunEntry, entries

__all__ = ["entries", "filled", "table"]

_MARK = re.compile(r"(?P<begin><!-- campaigns: (?P<names>[a-z0-9 -]+) -->\n).*?(?P<end><!-- /campaigns -->)", re.DOTALL)
_LAST = 3
"""How many runs of a campaign a table has. The ledger has all of them."""
_CODE = {True: "same", False: "**older than the code**", None: "unknown"}
_FUZZ_HEAD = (
    "| target | build | inputs | minutes | findings | last run | commit | seed | code since |",
    "|---|---|---|---|---|---|---|---|---|",
)
_MUTANTS_HEAD = (
    "| bugs | package | planted | killed | equivalent | survived | share | last run | commit | seed | code since |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)
_FIRST_HEAD = (
    "| seed | modules | planted | killed | share at first | not killed at first | not killed by now | first run | commit |",
    "|---|---|---|---|---|---|---|---|---|",
)
_VERSIONS_HEAD = (
    "| Kafka | tier | shim announced | read_uncommitted | read_committed | delayed upload | denied topic | last run | commit "
    "| code since |",
    "|---|---|---|---|---|---|---|---|---|---|",
)
_UNDER_LOAD_HEAD = (
    "| suite | load | runs | tests passed | failed | minutes | load average | last run | commit | code since "
    "| runs on any code |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)
_SIMULATE_HEAD = (
    "| runs | scenarios | events | events per CPU second | failed | CPU minutes | Python | run | commit | seed | code since |",
    "|---|---|---|---|---|---|---|---|---|---|---|",
)
_SOMETIMES_HEAD = ("| event | meaning | seen |", "|---|---|---|")
_SIMULATE_BUGS_HEAD = ("| bug | CPU seconds until it was found | rule, or why none finds it |", "|---|---|---|")
_SUITES_HEAD = ("| step | minutes before | minutes now | CPU minutes now |", "|---|---|---|---|")
_ALL_OF_IT = "all of it"
_KERNEL_HEAD = ("| file | lines | branches | last run | commit | code since |", "|---|---|---|---|---|---|")
_HEAD = ("| campaign | run | commit | seed | minutes | counts | code since |", "|---|---|---|---|---|---|---|")


def filled(text: str, runs: Sequence[RunEntry], root: Path = ROOT) -> str:
    """The text of a page with its tables as they are to be. Raises ValueError where a mark names a campaign without a run."""
    return _MARK.sub(lambda mark: f"{mark['begin']}{table(mark['names'].split(), runs, root)}{mark['end']}", text)


def table(campaigns: Sequence[str], runs: Sequence[RunEntry], root: Path = ROOT) -> str:
    """The last runs of each campaign. Of ``fuzz``: a row for each target and build, all runs on the same code together. Of
    ``mutants``: the last run of each kind of bugs and package. ``mutants-first``: what the tests did with each seed when it
    was new to them. ``simulate-events``: how often all runs of ``simulate`` on the same code saw each event.
    ``simulate-bugs``: each bug of the last run. Of ``under-load``: a row for each suite, all runs on the same code together.
    """
    lines: list[str] = []
    for name in campaigns:
        of = name.removesuffix("-first").removesuffix("-events")
        own = sorted((run for run in runs if run.campaign == of), key=lambda run: run.date)
        if not own:
            raise ValueError(f"docs/ledger.jsonl has no run of {name}")
        lines += _ROWS[name](own, root) if name in _ROWS else [_row(run, root) for run in own[-_LAST:]]
    head = _HEADS.get(" ".join(campaigns), _HEAD)
    return "\n".join([*head, *lines]) + "\n"


def _row(run: RunEntry, root: Path) -> str:
    counted = ", ".join(f"{name.replace('_', ' ')} {_number(count)}" for name, count in run.counts.items())
    columns = (run.campaign, run.date[:10], f"`{run.commit}`", _given(run.seed), _minutes([run]), counted, _since(run, root))
    return f"| {' | '.join(columns)} |"


def _fuzz_rows(runs: Iterable[RunEntry], root: Path) -> list[str]:
    by_target: dict[tuple[str, str], list[RunEntry]] = {}
    for run in runs:
        by_target.setdefault((run.counts["target"], run.counts["build"]), []).append(run)
    return [_fuzz_row(target, build, own, root) for (target, build), own in sorted(by_target.items())]


def _fuzz_row(target: str, build: str, runs: Sequence[RunEntry], root: Path) -> str:
    last = runs[-1]
    same = [run for run in runs if run.digest == last.digest]
    inputs, findings = (sum(run.counts[name] for run in same) for name in ("inputs", "findings"))
    columns = (
        f"`{target}`",
        build,
        _number(inputs),
        _minutes(same),
        _number(findings),
        last.date[:10],
        f"`{last.commit}`",
        _given(last.seed),
        _since(last, root),
    )
    return f"| {' | '.join(columns)} |"


def _mutant_rows(runs: Iterable[RunEntry], root: Path) -> list[str]:
    last = {(run.counts["bugs"], run.counts["package"]): run for run in runs}
    return [_mutant_row(run, root) for _, run in sorted(last.items())]


def _mutant_row(run: RunEntry, root: Path) -> str:
    """``share``: killed of those that are no equivalents. What could not be judged counts as survived."""
    planted, killed, equivalent = (run.counts[name] for name in ("planted", "killed", "equivalent"))
    columns = (
        run.counts["bugs"],
        f"`{run.counts['package']}`",
        *(_number(count) for count in (planted, killed, equivalent, planted - killed - equivalent)),
        f"{100 * killed / (planted - equivalent):.0f} %",
        run.date[:10],
        f"`{run.commit}`",
        _given(run.seed),
        _since(run, root),
    )
    return f"| {' | '.join(columns)} |"


def _first_rows(runs: Iterable[RunEntry], _: Path) -> list[str]:
    """Rows for each seed that the tests did not know: of the pure areas, and of the others."""
    by_seed: dict[int | None, dict[str, list[RunEntry]]] = {}
    for run in runs:
        areas = by_seed.setdefault(run.seed, {})
        if run.counts.get("unseen") or run.counts["package"] in areas:
            areas.setdefault(run.counts["package"], []).append(run)
    aims = sorted({area.aim for area in AREAS.values()}, reverse=True)
    rows = []
    for seed, areas in by_seed.items():
        for aim in aims:
            own = {name: areas[name] for name in AREAS if name in areas and AREAS[name].aim == aim}
            rows += [_first_row(seed, aim, own)] if own else []
    return rows


def _first_row(seed: int | None, aim: int, areas: Mapping[str, Sequence[RunEntry]]) -> str:
    """Each area's first run with the seed, and what its last run left."""
    first = [own[0] for own in areas.values()]
    planted, killed, equivalent = (sum(run.counts[name] for run in first) for name in ("planted", "killed", "equivalent"))
    missed = [f"`{name}` {_missed(own[0])}" for name, own in areas.items() if _missed(own[0])]
    now = sum(_missed(own[-1]) for own in areas.values())
    columns = (
        _given(seed),
        f"pure, aim {aim} %" if aim == max(area.aim for area in AREAS.values()) else f"others, aim {aim} %",
        _number(planted),
        _number(killed),
        f"{100 * killed / (planted - equivalent):.1f} %",
        ", ".join(missed) or "none",
        _number(now),
        first[0].date[:10],
        f"`{first[0].commit}`",
    )
    return f"| {' | '.join(columns)} |"


def _missed(run: RunEntry) -> int:
    missed: int = run.counts["planted"] - run.counts["killed"] - run.counts["equivalent"]
    return missed


def _under_load_rows(runs: Iterable[RunEntry], root: Path) -> list[str]:
    by_suite: dict[tuple[str, int], list[RunEntry]] = {}
    for run in runs:
        by_suite.setdefault((run.counts["suite"], run.counts["load"]), []).append(run)
    return [_under_load_row(suite, load, own, root) for (suite, load), own in sorted(by_suite.items())]


def _under_load_row(suite: str, load: int, runs: Sequence[RunEntry], root: Path) -> str:
    """The load average is the lowest and the highest at the end of a run: others may compute on the same machine.

    The last column has the runs on any code.
    """
    last = runs[-1]
    same = [run for run in runs if run.digest == last.digest]
    passed, failed = (sum(run.counts[name] for run in same) for name in ("passed", "failed"))
    averages = [run.counts["load_average"] for run in same]
    columns = (
        f"`{suite}`",
        str(load),
        str(len(same)),
        _number(passed),
        _number(failed),
        _minutes(same),
        f"{min(averages)} to {max(averages)}",
        last.date[:10],
        f"`{last.commit}`",
        _since(last, root),
        f"{len(runs)}, {sum(run.counts['failed'] > 0 for run in runs)} with failures",
    )
    return f"| {' | '.join(columns)} |"


def _version_rows(runs: Iterable[RunEntry], root: Path) -> list[str]:
    last = {run.counts["version"]: run for run in runs}
    return [_version_row(run, root) for _, run in sorted(last.items())]


def _version_row(run: RunEntry, root: Path) -> str:
    """A check that did not run has no outcome."""
    outcomes = (str(run.counts.get(name, "")) for name in ("tier", "announced", "records", "transactions", "delayed", "denied"))
    columns = (run.counts["version"], *outcomes, run.date[:10], f"`{run.commit}`", _since(run, root))
    return f"| {' | '.join(columns)} |"


def _kernel_rows(runs: Iterable[RunEntry], root: Path) -> list[str]:
    last = {run.counts["file"]: run for run in runs}
    return [_kernel_row(run, root) for _, run in sorted(last.items())]


def _kernel_row(run: RunEntry, root: Path) -> str:
    lines, missed, branches, untaken = (run.counts[name] for name in ("lines", "missed", "branches", "untaken"))
    columns = (
        f"`{run.counts['file']}`",
        f"{lines - missed} of {lines}",
        f"{branches - untaken} of {branches}",
        run.date[:10],
        f"`{run.commit}`",
        _since(run, root),
    )
    return f"| {' | '.join(columns)} |"


def _simulate_rows(runs: Sequence[RunEntry], root: Path) -> list[str]:
    """A row for each of the last runs, one for all runs on the same code, and one for all runs."""
    last = runs[-1]
    rows = []
    for run in runs[-_LAST:]:
        python = run.counts.get("python", "")
        columns = (*_simulated([run]), python, run.date[:10], f"`{run.commit}`", _given(run.seed), _since(run, root))
        rows.append(f"| 1 | {' | '.join(columns)} |")
    same = [run for run in runs if run.digest == last.digest]
    rows.append(f"| {len(same)} on the same code | {' | '.join(_simulated(same))} | | | | | {_since(last, root)} |")
    rows.append(f"| all {len(runs)} | {' | '.join(_simulated(runs))} | | | | | |")
    return rows


def _simulated(runs: Sequence[RunEntry]) -> list[str]:
    """What runs of the simulation counted together."""
    scenarios, events, failed = (sum(run.counts[name] for run in runs) for name in ("scenarios", "events", "failed"))
    per_second = round(events / max(1, sum(run.seconds or 0 for run in runs)))
    return [*map(_number, (scenarios, events, per_second, failed)), _minutes(runs)]


def _sometimes_rows(runs: Sequence[RunEntry], _: Path) -> list[str]:
    same = [run.counts["sometimes"] for run in runs if run.digest == runs[-1].digest]
    seen = {name: sum(counts.get(name, 0) for counts in same) for name in SOMETIMES}
    return [f"| `{name}` | {meaning} | {_number(seen[name])} |" for name, meaning in SOMETIMES.items()]


def _simulate_bug_rows(runs: Sequence[RunEntry], root: Path) -> list[str]:
    last = runs[-1]
    found = sorted(last.counts["found"].items(), key=lambda one: one[1][0])
    rows = [f"| {name} | {seconds} | {rule} |" for name, (seconds, rule) in found]
    reasons = {bug.name: f" {reason}" for bug, reason in own_bugs().items() if reason}
    rows += [f"| {name} | not found |{reasons.get(name, '')} |" for name in last.counts["missed"]]
    where = f"{last.date[:10]}, `{last.commit}`, seed {last.seed}, at most {last.counts['seconds_each']} s each"
    return [*rows, f"| found {len(found)} of {len(rows)} | {where} | code since: {_since(last, root)} |"]


def _suite_rows(runs: Sequence[RunEntry], _: Path) -> list[str]:
    """A row for each suite: its minutes in the first run and in the last one, and the last one's CPU minutes if it has them.

    Steps may overlap: then the run has its own total. Raises ValueError where there is one run only.
    """
    first, *_, last = runs
    columns = [first.counts["minutes"], last.counts["minutes"], last.counts.get("cpu_minutes", {})]
    names = {name: None for minutes in (columns[1], columns[0]) for name in minutes if name != _ALL_OF_IT}
    rows = [f"| `{name}` | {' | '.join(_one_digit(column.get(name)) for column in columns)} |" for name in names]
    totals = [_one_digit(column.get(_ALL_OF_IT, sum(column.values())) if column else None) for column in columns]
    notes = [", ".join((run.date[:10], f"`{run.commit}`", run.counts["machine"], *_outcomes(run))) for run in (first, last)]
    return [*rows, f"| {_ALL_OF_IT} | {' | '.join(totals)} |", f"| run | {' | '.join(notes)} | |"]


def _outcomes(run: RunEntry) -> list[str]:
    return [f"{_number(run.counts[name])} {name}" for name in ("passed", "failed") if name in run.counts]


def _one_digit(minutes: float | None) -> str:
    return "" if minutes is None else f"{minutes:.1f}"


_ROWS = {
    "broker-versions": _version_rows,
    "fuzz": _fuzz_rows,
    "kernel-coverage": _kernel_rows,
    "mutants": _mutant_rows,
    "mutants-first": _first_rows,
    "simulate": _simulate_rows,
    "simulate-bugs": _simulate_bug_rows,
    "simulate-events": _sometimes_rows,
    "suites": _suite_rows,
    "under-load": _under_load_rows,
}
_HEADS = {
    "broker-versions": _VERSIONS_HEAD,
    "fuzz": _FUZZ_HEAD,
    "kernel-coverage": _KERNEL_HEAD,
    "mutants": _MUTANTS_HEAD,
    "mutants-first": _FIRST_HEAD,
    "simulate": _SIMULATE_HEAD,
    "simulate-bugs": _SIMULATE_BUGS_HEAD,
    "simulate-events": _SOMETIMES_HEAD,
    "suites": _SUITES_HEAD,
    "under-load": _UNDER_LOAD_HEAD,
}


def _number(count: Any) -> str:
    if isinstance(count, int):
        return f"{count:,}"
    if isinstance(count, Mapping):
        return " ".join(f"{name}:{_number(value)}" for name, value in count.items())
    return str(count)


def _given(seed: int | None) -> str:
    return "" if seed is None else str(seed)


def _minutes(runs: Sequence[RunEntry]) -> str:
    seconds = [run.seconds for run in runs if run.seconds is not None]
    return f"{sum(seconds) / 60:.1f}" if seconds else ""


def _since(run: RunEntry, root: Path) -> str:
    return _CODE[run.is_current(root)]
