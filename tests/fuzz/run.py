"""Fuzzes the record decoders.

    make fuzz SECONDS=20                             # every target that long, on top of the corpus in the tree
    python tests/fuzz/run.py --seconds 60 --target lz4 --keep
    make fuzz SECONDS=20 ARGS=--sanitize             # the kernel built with AddressSanitizer and UBSan

Ends with 1 when a target fails; the input that did it lies in ``.cache/fuzz/``. ``--keep`` adds what the fuzzer found
interesting to the corpus. An input may take a second for a MiB, and the process two GiB. Needs atheris (group ``fuzz``).
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
FOUND = ROOT / ".cache" / "fuzz"
NAMES = [
    "any_bytes", "batch_v2", "record", "legacy_set", "legacy_inner", "gzip", "snappy", "lz4", "zstd", "control_record",
    "aborted_filter",
]  # fmt: skip


class SanitizedKernel:
    """Finds the sanitized build in place of the installed one."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != "kafka_remote_client.records._kernel":
            return None
        return spec_from_file_location(name, os.environ["KERNEL_FILE"])


def child(name: str, arguments: list[str]) -> None:
    """Runs one target in this process; never returns."""
    import atheris

    if "KERNEL_FILE" in os.environ:
        sys.meta_path.insert(0, SanitizedKernel())
    with atheris.instrument_imports(include=["kafka_remote_client.records"]):
        from tests.fuzz.targets import TARGETS
    from kafka_remote_client.records import _kernel

    if _kernel.__file__ != os.environ.get("KERNEL_FILE", _kernel.__file__):
        sys.exit(f"the sanitized kernel was not loaded, but {_kernel.__file__}")
    atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
    atheris.Fuzz()


def sanitized() -> dict[str, str]:
    """Builds the kernel with both sanitizers, once for the same sources; returns what a child needs in its environment."""
    sources = ROOT / "kafka_remote_client" / "records"
    inputs = sorted(path for path in sources.iterdir() if path.suffix in {".pyx", ".pxi", ".h"})
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    directory = FOUND / f"sanitized-{digest[:16]}"
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build_sanitized(sources, directory / "_kernel.c", target)
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "KERNEL_FILE": str(target),
        "LD_PRELOAD": library,
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1",
    }


def _build_sanitized(sources: Path, c_file: Path, target: Path) -> None:
    subprocess.run([sys.executable, "-m", "cython", "-3", str(sources / "_kernel.pyx"), "-o", str(c_file)], check=True)
    flags = [
        "-O1",
        "-g",
        "-fPIC",
        "-shared",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
    ]
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{sources}"]
    unfinished = target.with_suffix(".unfinished")
    subprocess.run(["gcc", *flags, *include, str(c_file), "-o", str(unfinished)], check=True)
    unfinished.rename(target)


def fuzz(name: str, seconds: int, environment: dict[str, str], keep: bool = False) -> str:
    """One target; returns how many runs in how many seconds found nothing. Raises RuntimeError with the target's output."""
    FOUND.mkdir(parents=True, exist_ok=True)
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    with tempfile.TemporaryDirectory() as scratch:
        seeds = CORPUS / name
        arguments = [scratch, str(seeds), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]
        arguments.append(f"-artifact_prefix={FOUND}/{name}-")
        done = subprocess.run(
            [sys.executable, __file__, "--child", name, *arguments],
            env=inherited | {"PYTHONPATH": str(ROOT)} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        runs = re.search(r"Done (\d+) runs in (\d+)", done.stderr)
        if done.returncode or runs is None:
            raise RuntimeError(f"{name}: FAILED\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
        if keep:
            for path in Path(scratch).iterdir():
                shutil.copy(path, seeds / path.name)
    return f"{name}: {int(runs[1]):,} runs in {runs[2]} s, nothing found"


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
