"""Fuzzes the code that reads bytes of other programs: records, answers of stores and brokers, metadata.

    make fuzz SECONDS=60           # every target that long by the processor's clock, on top of the corpus in the tree
    make fuzz SECONDS=60 SEED=7                      # the same inputs again, as far as the time allows
    make fuzz SECONDS=60 ARGS="--target lz4"
    make fuzz SECONDS=20 ARGS=--sanitize             # the kernel built with AddressSanitizer and UBSan

A campaign adds inputs with new coverage, or with an error of a new kind (``outcomes.py``), to the corpus in the tree, and
prints a ledger line for each target. Exit code 1 if a target fails; its input is in ``.cache/fuzz/``.
The targets limit the time of an input (``bounded.py``); the process may use two GiB. Needs atheris
(group ``fuzz``).
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from tests.fuzz import corpus
from tests.fuzz.registry import TARGETS, FuzzTarget
from tests.support.kernel_build import ROOT, build, put_in_place
from tests.support.ledger import ledger

__all__ = ["Campaign", "Found", "fuzz", "kinds_of", "main", "new_inputs", "sanitized"]

FOUND = ROOT / ".cache" / "fuzz"
_LONGEST_INPUT = 4096
_OUTCOMES = "FUZZ_OUTCOMES"
"""Names the folder in which a child leaves an input for each kind of error (``outcomes.py``)."""
_SHORTEST_ROUND = 5
"""Seconds: to begin takes two."""
_LIMITS = ["-timeout=60", "-rss_limit_mb=2048", f"-max_len={_LONGEST_INPUT}"]


def child(name: str, arguments: list[str]) -> None:
    """Runs one target in this process; never returns."""
    import atheris

    put_in_place()
    target = TARGETS[name]
    with atheris.instrument_imports(include=target.instrumented):
        judge = target.load()
    if outcomes := os.environ.get(_OUTCOMES):
        judge = _noting(judge, Path(outcomes))
    if "KERNEL_FILE" in os.environ:
        from kafka_remote_client.records import _kernel

        if _kernel.__file__ != os.environ["KERNEL_FILE"]:
            sys.exit(f"the sanitized kernel was not loaded, but {_kernel.__file__}")
    atheris.Setup([sys.argv[0], *arguments], judge)
    atheris.Fuzz()


def _noting(judge: Callable[[bytes], None], folder: Path) -> Callable[[bytes], None]:
    from kafka_remote_client.errors import DirectFetchError
    from kafka_remote_client.records.faults import BatchFault
    from tests.fuzz.outcomes import Outcomes

    outcomes = Outcomes(folder)
    outcomes.watch([DirectFetchError, BatchFault])
    return outcomes.of(judge)


def sanitized() -> dict[str, str]:
    """Builds the kernel with both sanitizers, once for the same sources. Returns the environment that a child needs."""
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    target = build(["-O1", "-g", "-fno-omit-frame-pointer", *sanitizers], FOUND)
    # Without libstdc++, AddressSanitizer ends at the exception with which atheris reports a finding, before it can be read.
    libraries = " ".join(_library(name) for name in ("libasan.so", "libstdc++.so.6"))
    return {
        "KERNEL_FILE": str(target),
        "LD_PRELOAD": libraries,
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1",
    }


def _library(name: str) -> str:
    """Returns the path of a library of the compiler."""
    found = subprocess.run(["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


@attrs.frozen
class Found:
    """A run's result: ``inputs`` in ``seconds`` of processor time, start included. ``added``: inputs new to the corpus."""

    inputs: int
    seconds: float
    added: int = 0


@attrs.frozen
class Campaign:
    """How long each target runs: by inputs and wall-clock seconds (0 = no limit) or by seconds of processor time; the seed;
    and the kernel.
    """

    seed: int
    inputs: int = 0
    seconds: int = 0
    environment: dict[str, str] = attrs.Factory(dict)
    keeps: bool = False


def fuzz(target: FuzzTarget, campaign: Campaign) -> Found:
    """Runs one target: once for a number of inputs, otherwise until it has used its processor time, also on a busy machine.
    Raises RuntimeError with its output if it fails.
    """
    FOUND.mkdir(parents=True, exist_ok=True)
    known = corpus.read(target.name)
    with tempfile.TemporaryDirectory() as scratch:
        grown, seeds, outcomes = Path(scratch, "grown"), Path(scratch, "seeds"), Path(scratch, "outcomes")
        for folder in (grown, seeds, outcomes):
            folder.mkdir()
        corpus.unpack(known, seeds)
        noting = {_OUTCOMES: str(outcomes)} if campaign.keeps else {}
        prefix = f"-artifact_prefix={FOUND}/{target.name}-"
        inputs, spent, rounds = 0, 0.0, 0
        while not rounds or (not campaign.inputs and spent < campaign.seconds):
            arguments = [str(grown), str(seeds), f"-seed={campaign.seed + rounds}", *_LIMITS, prefix]
            arguments += [f"-runs={campaign.inputs}"] if campaign.inputs else []
            arguments += (
                [f"-max_total_time={max(_SHORTEST_ROUND, round(campaign.seconds - spent))}"] if campaign.seconds else []
            )
            text, seconds = _run(target, arguments, campaign.environment | noting)
            runs = re.search(r"Done (\d+) runs in (\d+)", text)
            if runs is None:
                raise RuntimeError(f"{target.name}: FAILED\n{_excerpt(text)}")
            inputs, spent, rounds = inputs + int(runs[1]), spent + seconds, rounds + 1
        kept, led = _contents(grown).values(), _contents(outcomes)
        added = corpus.write(target.name, known, new_inputs(target, known, kept, led)) if campaign.keeps else 0
    return Found(inputs, spent, added)


def _excerpt(text: str) -> str:
    """Returns the front of a child's output, which has the finding, and the end, which has the input."""
    lines = [line for line in text.splitlines() if not line.startswith("INFO: Instrumenting")]
    return "\n".join(lines if len(lines) <= 80 else [*lines[:40], "...", *lines[-40:]])


def _run(target: FuzzTarget, arguments: Sequence[str], environment: dict[str, str]) -> tuple[str, float]:
    """Returns the child's output, and the processor time that it took."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    fixed = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.run", "--child", target.name, *arguments],
            env=inherited | fixed | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise RuntimeError(f"{target.name}: FAILED\n{_excerpt(text)}")
    return text, used.ru_utime + used.ru_stime


def new_inputs(target: FuzzTarget, known: Sequence[bytes], kept: Iterable[bytes], led: Mapping[str, bytes]) -> list[bytes]:
    """Returns the inputs that a campaign adds to the corpus. Of the inputs that the fuzzer kept: those with coverage that no
    smaller one has. Of the inputs that led to an error: those with a kind of error that no smaller one has.
    """
    new = _reaching(target, known, sorted(set(kept) - set(known), key=_order))
    seen = set(kinds_of(target, [*known, *new]))
    for data in sorted(set(led.values()), key=_order):
        if not seen.issuperset(kind for kind, one in led.items() if one == data):
            new.append(data)
            seen.update(kinds_of(target, [data]))
    return new


def _reaching(target: FuzzTarget, known: Sequence[bytes], candidates: Sequence[bytes]) -> list[bytes]:
    if not candidates:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        paths = corpus.unpack([*known, *candidates], Path(scratch))
        control = Path(scratch, "control")
        control.write_text("\n".join([str(len(paths)), str(len(known)), *map(str, paths)]) + "\n")
        _run(target, [f"-merge_control_file={control}", "-merge_inner=1", *_LIMITS], {})
        reached = [int(number) for number in re.findall(r"^FT (\d+) \d", control.read_text(), re.MULTILINE)]
    return [candidates[number - len(known)] for number in reached if number >= len(known)]


def kinds_of(target: FuzzTarget, inputs: Sequence[bytes]) -> dict[str, bytes]:
    """Returns the kinds of errors of the inputs, with the smallest input of each."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as folder:
        paths = corpus.unpack(inputs, Path(scratch))
        _run(target, list(map(str, paths)), {_OUTCOMES: folder})
        return _contents(Path(folder))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _order(data: bytes) -> tuple[int, bytes]:
    return len(data), data


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=20, help="of the processor, for each target")
    parser.add_argument("--workers", type=int, default=2, help="targets at a time")
    parser.add_argument("--target", choices=TARGETS, action="append", help="this target only; may be repeated")
    parser.add_argument("--seed", type=int, default=None, help="of all targets (default: a random one)")
    parser.add_argument("--sanitize", action="store_true", help="the record kernel with sanitizers; keeps nothing")
    options = parser.parse_args(given)
    seed = secrets.randbelow(1 << 31) + 1 if options.seed is None else options.seed
    environment = sanitized() if options.sanitize else {}
    campaign = Campaign(seed, seconds=options.seconds, environment=environment, keeps=not options.sanitize)
    targets = [TARGETS[name] for name in options.target or TARGETS]
    if options.sanitize:
        targets = [target for target in targets if target.sanitized]
    build_name = "sanitized" if options.sanitize else "plain"
    failed = False
    with ThreadPoolExecutor(options.workers) as pool:
        running = {target: pool.submit(fuzz, target, campaign) for target in targets}
        for target, future in running.items():
            found, findings = Found(0, options.seconds), 0
            try:
                found = future.result()
            except RuntimeError as error:
                print(error, flush=True)
                failed, findings = True, 1
            ledger(
                "fuzz",
                describes=target.describes,
                seed=seed,
                seconds=round(found.seconds),
                target=target.name,
                build=build_name,
                inputs=found.inputs,
                added=found.added,
                findings=findings,
            )
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    sys.exit(main())
