"""Fuzzes the record decoders.

    python tests/fuzz/run.py --seconds 20            # every target that long, on top of the corpus in the tree
    python tests/fuzz/run.py --seconds 60 --target lz4 --keep
    python tests/fuzz/run.py --seconds 20 --sanitize # the kernel built with AddressSanitizer and UBSan

Ends with 1 when a target fails; the input that did it lies in ``.cache/fuzz/``. ``--keep`` adds what the fuzzer found
interesting to the corpus. An input may take a second for a MiB, and the process two GiB. Needs atheris (group ``fuzz``).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
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


def build_sanitized(directory: Path) -> dict[str, str]:
    """Builds the kernel with both sanitizers into ``directory``; returns what a child needs in its environment."""
    sources = ROOT / "kafka_remote_client" / "records"
    c_file = directory / "_kernel.c"
    subprocess.run([sys.executable, "-m", "cython", "-3", str(sources / "_kernel.pyx"), "-o", str(c_file)], check=True)
    target = directory / f"_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
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
    subprocess.run(["gcc", *flags, *include, str(c_file), "-o", str(target)], check=True)
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "KERNEL_FILE": str(target),
        "LD_PRELOAD": library,
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1",
    }


def fuzz(name: str, seconds: int, environment: dict[str, str], keep: bool) -> bool:
    """One target; True when nothing was found."""
    with tempfile.TemporaryDirectory() as scratch:
        seeds = CORPUS / name
        arguments = [scratch, str(seeds), f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]
        arguments.append(f"-artifact_prefix={FOUND}/{name}-")
        done = subprocess.run(
            [sys.executable, __file__, "--child", name, *arguments],
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        runs = re.search(r"Done (\d+) runs in (\d+)", done.stderr)
        if done.returncode or runs is None:
            print(f"{name}: FAILED\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}", flush=True)
            return False
        print(f"{name}: {int(runs[1]):,} runs in {runs[2]} s, nothing found", flush=True)
        if keep:
            for path in Path(scratch).iterdir():
                shutil.copy(path, seeds / path.name)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--target", choices=NAMES, action="append")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    FOUND.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        environment = build_sanitized(Path(directory)) if options.sanitize else {}
        results = [fuzz(name, options.seconds, environment, options.keep) for name in options.target or NAMES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3:])
    sys.exit(main())
