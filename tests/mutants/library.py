"""Generated bugs: mutmut's operators applied to the syntax trees of the modules. A seed chooses a sample of each area.

An operator swaps ``<`` and ``<=``, moves a number by one, turns ``and`` into ``or``, drops an argument or a ``not``, and so on.
Changes without an effect on results are left out: texts, log lines, raised errors, annotations and names of types, imports,
``repr``. Each operator has the same share of a sample, because most places are arguments of calls.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import attrs
import libcst as cst
import libcst.matchers as m
from mutmut.mutation import mutators

from tests.mutants.mutant import Mutant

__all__ = ["AREAS", "Area", "Equivalent", "changed_lines", "equivalents", "made_of", "sampled"]


@attrs.frozen
class Area:
    """Modules to sample from: those of a folder below ``kafka_remote_client`` whose names match one of the patterns.

    ``except_for``: patterns of excluded modules. ``aim``: the least percentage of killed bugs.
    """

    folder: str
    names: tuple[str, ...]
    aim: int
    except_for: tuple[str, ...] = ()

    @property
    def modules(self) -> list[str]:
        """Returns the modules by their dotted names."""
        found = self._found(self.names) - self._found(self.except_for)
        names = sorted(path.relative_to(_PRODUCT.parent).with_suffix("").as_posix() for path in found)
        return [name.replace("/", ".") for name in names if not name.endswith("/__init__")]

    def _found(self, patterns: tuple[str, ...]) -> set[Path]:
        return {path for pattern in patterns for path in (_PRODUCT / self.folder).glob(f"{pattern}.py")}


_PURE, _SHELL = 97, 92
_PURE_CONSUMER = ("route_state",)
_PURE_FETCH = (
    "commands",
    "grant_checks",
    "partition_read",
    "partition_state",
    "policy",
    "preference",
    "range_sizes",
    "scheduler",
)
_PURE_LOCATION = (
    "aborted_tail",
    "answer",
    "bootstrap",
    "direct_location",
    "leader_check",
    "lru_cache",
    "probes",
    "sasl_settings",
)
_PURE_RESTORE = ("bootstrap_checkpoint", "files", "restore_plan", "shell_commands")
_PURE_SCANNING = ("predicate", "pruning", "remaining", "scan", "scan_plan", "split_window", "splits")
_PURE_SHIM = ("loop_shares",)
_PURE_SPARK = ("planning/filters", "planning/job_plan")
_PURE_VERIFY = (
    "chain",
    "copies",
    "finding",
    "first_of_many",
    "leader_epochs",
    "log_walk",
    "offset_index",
    "segment",
    "stored_segment",
    "time_index",
    "transactions",
)
AREAS: Mapping[str, Area] = {
    "kafka_remote_client": Area("", ("*",), _PURE, ("clock", "plugin", "registry", "safe_open", "threads")),
    "fetch": Area("fetch", _PURE_FETCH, _PURE),
    "location": Area("location", _PURE_LOCATION, _PURE),
    "protocol": Area("protocol", ("*",), _PURE, ("connection", "peer", "tls")),
    "records": Area("records", ("*",), _PURE),
    "remote_log": Area("remote_log", ("*", "aiven/*"), _PURE, ("follower",)),
    "restore plans": Area("restore", _PURE_RESTORE, _PURE),
    "scan plans": Area("scanning", _PURE_SCANNING, _PURE),
    "shim shares": Area("shim", _PURE_SHIM, _PURE),
    "spark plans": Area("spark", _PURE_SPARK, _PURE),
    "verify": Area("verify", _PURE_VERIFY, _PURE),
    "consumer routes": Area("consumer", _PURE_CONSUMER, _PURE),
    "consumer": Area("consumer", ("*",), _SHELL, _PURE_CONSUMER),
    "engine": Area("fetch", ("*",), _SHELL, _PURE_FETCH),
    "scanning": Area("scanning", ("*",), _SHELL, _PURE_SCANNING),
    "restore": Area("restore", ("*",), _SHELL, _PURE_RESTORE),
    "shim": Area("shim", ("*",), _SHELL, _PURE_SHIM),
    "spark": Area("spark", ("*", "*/*"), _SHELL, _PURE_SPARK),
}
"""What is sampled, by its name in the ledger. What a pure area leaves out owns sockets or threads, or is protocols alone."""
_ROOT = Path(__file__).resolve().parents[2]
_PRODUCT = _ROOT / "kafka_remote_client"
_TEXTS = {mutators.operator_string, mutators.operator_dict_arguments}
_OPERATORS = tuple((kind, operator) for kind, operator in mutators.mutation_operators if operator not in _TEXTS)
_FOR_READERS = (
    m.Annotation()
    | m.Assert()
    | m.Decorator()
    | m.FormattedString()
    | m.Import()
    | m.ImportFrom()
    | m.Raise()
    | m.Arg(keyword=m.Name("repr"))
    | m.Assign(targets=[m.AssignTarget(m.Name("__all__"))])
    | m.Assign(value=m.Subscript(m.Name("Callable") | m.Name("Sequence") | m.Name("dict") | m.Name("list") | m.Name("tuple")))
    | m.Call(m.Attribute(m.Name("_log") | m.Name("_LOG")))
    | m.Call(m.Name("TypeVar") | m.Name("cast"))
    | m.ClassDef(bases=[m.ZeroOrMore(), m.Arg(m.Name("Protocol")), m.ZeroOrMore()])
    | m.FunctionDef(m.Name("__repr__") | m.Name("__str__"))
    | m.If(m.Name("TYPE_CHECKING"))
)


@attrs.frozen
class Equivalent:
    """A change that no test can notice, and the reason. ``old`` and ``new`` are the changed lines, without indentation."""

    module: str
    old: str
    new: str
    reason: str


@attrs.frozen(eq=False)
class _Change:
    module: str
    tree: cst.Module
    node: cst.CSTNode
    changed: cst.CSTNode


def sampled(area: str, seed: int, count: int) -> list[Mutant]:
    """Returns ``count`` bugs of an area's modules, or all. The same for the same seed and code."""
    chance = random.Random(f"{seed} {area}")
    by_operator: dict[str, list[_Change]] = {}
    for module in AREAS[area].modules:
        tree = cst.parse_module(Mutant("", module, "", "", "").source)
        for operator, change in _changes(module, tree):
            by_operator.setdefault(operator, []).append(change)
    piles = [by_operator[name] for name in sorted(by_operator)]
    for pile in piles:
        chance.shuffle(pile)
    known = {(one.module, one.old, one.new): one.reason for one in equivalents()}
    found: list[Mutant] = []
    while len(found) < count and any(piles):
        for pile in piles:
            if pile and len(found) < count and (made := _made(pile.pop(), known)) is not None:
                found.append(made)
    return found


def made_of(module: str, source: str) -> list[Mutant]:
    """Returns all bugs of a module with this text."""
    tree = cst.parse_module(source)
    return [made for _, change in _changes(module, tree) if (made := _made(change, {})) is not None]


def _changes(module: str, tree: cst.Module) -> Iterator[tuple[str, _Change]]:
    waiting: list[cst.CSTNode] = [tree]
    while waiting:
        node = waiting.pop()
        if m.matches(node, _FOR_READERS):
            continue
        for kind, operator in _OPERATORS:
            if isinstance(node, kind):
                yield from ((operator.__name__, _Change(module, tree, node, changed)) for changed in operator(node))
        waiting += reversed(node.children)


def _made(change: _Change, known: Mapping[tuple[str, str, str], str]) -> Mutant | None:
    """Returns the bug; ``None`` if the change gives no valid Python, or the same code. ``known``: reasons of equivalence."""
    source = change.tree.code
    edited = change.tree.deep_replace(change.node, change.changed).code
    old, new = changed_lines(source, edited)
    try:
        compile(edited, change.module, "exec")
    except SyntaxError:
        return None
    if edited == source:
        return None
    pairs = zip(source.splitlines(), edited.splitlines(), strict=False)
    line = next(number for number, (before, after) in enumerate(pairs, 1) if before != after)
    name = f"line {line}: {old} -> {new}".replace("\n", " ")
    return Mutant(name, change.module, source, edited, killed_by="", equivalent=known.get((change.module, old, new), ""))


def changed_lines(old: str, new: str) -> tuple[str, str]:
    """Returns the lines that differ between two texts, without indentation."""
    before, after = old.splitlines(), new.splitlines()
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    differing = [block for block in blocks if block[0] != "equal"]
    left = [line.strip() for _, start, end, _, _ in differing for line in before[start:end]]
    right = [line.strip() for _, _, _, start, end in differing for line in after[start:end]]
    return "\n".join(left), "\n".join(right)


def equivalents() -> Sequence[Equivalent]:
    """Returns the changes that are known to have no effect."""
    text = Path(__file__).with_name("equivalents.toml").read_text(encoding="utf-8")
    return [Equivalent(**one) for one in tomllib.loads(text).get("equivalent", [])]
