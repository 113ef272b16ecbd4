"""Fuzzes the record decoders.

    make fuzz SECONDS=20                             # every target that long, on top of the corpus in the tree
    python -m tests.fuzz.run --seconds 60 --target lz4 --keep
    make fuzz SECONDS=20 ARGS=--sanitize             # the kernel built with AddressSanitizer and UBSan

Ends with 1 when a target fails; the input that did it lies in ``.cache/fuzz/``. ``--keep`` adds what the fuzzer found
interesting to the corpus. The targets judge the time that an input takes (``targets.py``); the process may take two GiB.
Needs atheris (group ``fuzz``).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.kernel_build import ROOT, build, put_in_place

CORPUS = ROOT / "tests" / "fuzz" / "corpus"
FOUND = ROOT / ".cache" / "fuzz"
NAMES = [
    "any_bytes", "batch_v2", "record", "legacy_set", "legacy_inner", "gzip", "snappy", "lz4", "zstd", "control_record",
    "aborted_filter",
]  # fmt: skip


def child(name: str, arguments: list[str]) -> None:
    """Runs one target in this process; never returns."""
    import atheris

    put_in_place()
    with atheris.instrument_imports(include=["kafka_remote_client.records"]):
        from tests.fuzz.targets import TARGETS
    from kafka_remote_client.records import _kernel

    if _kernel.__file__ != os.environ.get("KERNEL_FILE", _kernel.__file__):
        sys.exit(f"the sanitized kernel was not loaded, but {_kernel.__file__}")
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
    atheris.Fuzz()


def sanitized() -> dict[str, str]:
    """Builds the kernel with both sanitizers, once for the same sources; returns what a child needs in its environment."""
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    target = build(["-O1", "-g", "-fno-omit-frame-pointer", *sanitizers], FOUND)
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "KERNEL_FILE": str(target),
        "LD_PRELOAD": library,
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1",
    }


def fuzz(name: str, seconds: int, environment: dict[str, str], keep: bool = False) -> str:
    """One target; returns how many runs in how many seconds found nothing. Raises RuntimeError with the target's output."""
    FOUND.mkdir(parents=True, exist_ok=True)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    with tempfile.TemporaryDirectory() as scratch:
        seeds = CORPUS / name
        arguments = [scratch, str(seeds), f"-max_total_time={seconds}", "-timeout=60", "-rss_limit_mb=2048", "-max_len=4096"]
        arguments.append(f"-artifact_prefix={FOUND}/{name}-")
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.run", "--child", name, *arguments],
                env=inherited | {"PYTHONPATH": str(ROOT)} | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        runs = re.search(r"Done (\d+) runs in (\d+)", text)
        if process.returncode or runs is None:
            raise RuntimeError(f"{name}: FAILED\n{text[-8000:]}")
        if keep:
            for path in Path(scratch).iterdir():
                shutil.copy(path, seeds / path.name)
    processor = used.ru_utime + used.ru_stime
    return f"{name}: {int(runs[1]):,} runs in {runs[2]} s ({processor:.0f} s of processor time), nothing found"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--workers", type=int, default=2, help="targets at a time")
    parser.add_argument("--target", choices=NAMES, action="append")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    failed = False
    environment = sanitized() if options.sanitize else {}
    with ThreadPoolExecutor(options.workers) as pool:
        names = options.target or NAMES
        running = [pool.submit(fuzz, name, options.seconds, environment, options.keep) for name in names]
        for future in running:
            try:
                print(future.result(), flush=True)
            except RuntimeError as error:
                print(error, flush=True)
                failed = True
    return int(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    sys.exit(main())
