"""The inputs that every run of a target starts with: ``corpus/<target>.txt``, one input a line in base64, sorted by size.

A campaign adds inputs with new coverage or an error of a new kind, the smallest first, as long as the target's file
stays within its bounds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

__all__ = ["CORPUS", "MOST_BYTES", "MOST_INPUTS", "read", "unpack", "write"]

CORPUS = Path(__file__).with_name("corpus")
MOST_INPUTS = 300
MOST_BYTES = 90_000
"""The limit of a target's file. All files together stay below 2 MB."""


def read(name: str, corpus: Path = CORPUS) -> list[bytes]:
    """Returns the inputs of a target; none if it has no file."""
    path = corpus / f"{name}.txt"
    return [base64.b64decode(line, validate=True) for line in path.read_text().splitlines()] if path.exists() else []


def write(name: str, kept: Iterable[bytes], found: Iterable[bytes] = (), corpus: Path = CORPUS) -> int:
    """Writes the file: all of ``kept``, then as many of ``found`` as fit. Returns the number of added inputs."""
    inputs = set(kept)
    size = sum(map(_size, inputs))
    added = 0
    for data in sorted(set(found) - inputs, key=_order):
        if len(inputs) < MOST_INPUTS and size + _size(data) <= MOST_BYTES:
            inputs.add(data)
            size += _size(data)
            added += 1
    corpus.mkdir(exist_ok=True)
    lines = [base64.b64encode(data).decode() + "\n" for data in sorted(inputs, key=_order)]
    (corpus / f"{name}.txt").write_text("".join(lines))
    return added


def unpack(inputs: Iterable[bytes], directory: Path) -> list[Path]:
    """Writes one file for each input, as the fuzzer reads them, in the given order."""
    paths = []
    for data in inputs:
        paths.append(directory / hashlib.sha1(data).hexdigest())
        paths[-1].write_bytes(data)
    return paths


def _order(data: bytes) -> tuple[int, bytes]:
    return len(data), data


def _size(data: bytes) -> int:
    return len(base64.b64encode(data)) + 1
