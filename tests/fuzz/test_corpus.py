"""The corpus, replayed: no input of it makes its target fail. What campaigns add stays small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import corpus
from tests.fuzz.registry import TARGETS, FuzzTarget
from tests.fuzz.seed import seeds
from tests.support.decoders import SEAM
from tests.support.ledger import ROOT, digest

_MOST_BYTES_IN_ALL = 2_000_000


def test_every_target_has_a_corpus() -> None:
    assert {path.stem for path in corpus.CORPUS.iterdir()} == set(TARGETS) == set(seeds())


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_passes_on_its_corpus(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, attribute in SEAM:  # the targets replace them; this restores them
        monkeypatch.setattr(module, attribute, getattr(module, attribute))
    target = TARGETS[name].load()
    for data in corpus.read(name):
        target(data)


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_has_the_first_inputs(name: str) -> None:
    inputs = corpus.read(name)
    assert set(seeds()[name]) <= set(inputs)
    assert inputs == sorted(set(inputs), key=lambda data: (len(data), data))


def test_the_corpus_is_small() -> None:
    sizes = {path.stem: path.stat().st_size for path in corpus.CORPUS.iterdir()}
    assert max(sizes.values()) <= corpus.MOST_BYTES
    assert sum(sizes.values()) <= _MOST_BYTES_IN_ALL


def test_the_corpus_adds_the_smallest_inputs_while_there_is_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "MOST_INPUTS", 3)
    assert corpus.write("lz4", [b"long ago", b""], [b"longer", b"new", b""], tmp_path) == 1
    assert corpus.read("lz4", tmp_path) == [b"", b"new", b"long ago"]
    monkeypatch.setattr(corpus, "MOST_BYTES", 30)
    assert corpus.write("zstd", [b"a" * 9], [b"b" * 9, b"c"], tmp_path) == 1
    assert corpus.read("zstd", tmp_path) == [b"c", b"a" * 9]
    assert corpus.read("gzip", tmp_path) == []


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_each_target_names_existing_code(target: object) -> None:
    assert digest(target.describes)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_fuzzer_instruments_modules_that_the_target_imports(target: FuzzTarget) -> None:
    target.load()
    assert [name for name in target.instrumented if name not in sys.modules] == []


def test_the_registry_imports_nothing_of_the_product() -> None:
    program = (
        "import sys, tests.fuzz.run; print([name for name in sys.modules if name.startswith(('kafka_remote', 'fetchers'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "the fuzzer instruments only what is imported after it"
