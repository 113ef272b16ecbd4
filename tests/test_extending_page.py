"""docs/extending.md: its layout is installed and passes the suite, and its setting and its verb work as described."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import indent

import pytest

from kafka_remote_client import testing
from kafka_remote_client.cli.main import run
from kafka_remote_client.remote_log.layout import LayoutOptions
from kafka_remote_client.remote_log.layouts import layout_named
from kafka_remote_client.testing import ObjectLayoutTests, sample_segment
from tests.support.golden import golden_local

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text()
_AT_MOST_FILES = 3
_AT_MOST_LINES = 200
_INDENT = " " * 4


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


LAYOUT, SUITE, DECLARATION, FIELD, VERB, ENTRY = blocks("python")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flat_layout.py").write_text(LAYOUT)
    (tmp_path / "test_flat_layout.py").write_text(SUITE)
    info = tmp_path / "flat_layout-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flat-layout\nVersion: 1.0\n")
    ((group, entries),) = tomllib.loads(blocks("toml")[0])["project"]["entry-points"].items()
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("flat_layout", None)


def environment(*paths: Path) -> dict[str, str]:
    """Measures no coverage: the files are gone when it is reported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "PYTEST_ADDOPTS"))}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def test_the_layout_is_short() -> None:
    assert len(LAYOUT.splitlines()) <= _AT_MOST_LINES


def test_the_layout_passes_the_suite_as_on_the_page(installed: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(installed)]
    done = subprocess.run(
        command, cwd=installed, env=environment(installed, ROOT), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout
    tests = [name for name in dir(ObjectLayoutTests) if name.startswith("test_")]
    assert f"{2 * len(tests)} passed" in done.stdout


def test_the_verbs_accept_the_layout_by_name(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = layout_named("flat", LayoutOptions("tier/"))
    suite = ObjectLayoutTests()
    for key, data in suite.store_of(layout, sample_segment("orders", 0, 0), sample_segment("orders", 0, 1)).objects.items():
        path = installed / "store" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    store = ["--store", (installed / "store").as_uri(), "--layout", "flat", "--key-prefix", "tier/"]
    for verb in ("ls", "verify"):
        with pytest.raises(SystemExit) as stopped:
            run([verb, *store])
        assert stopped.value.code == 0
        assert "orders" in capsys.readouterr().out or verb == "verify"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("kafka_remote_client", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "fetchers" / "kafka_remote_fetchers", tmp_path / "kafka_remote_fetchers")
    return tmp_path


def output_of(command: list[str], tree: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tree,
        env=environment(tree, ROOT),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_setting_works_where_the_page_adds_it(tree: Path) -> None:
    table, value = tree / "kafka_remote_client" / "settings.py", tree / "kafka_remote_client" / "config.py"
    head, begin, rest = table.read_text().partition("\nSETTINGS: ")
    settings, end, after = rest.partition("\n)\n")
    table.write_text(f"{head}{begin}{settings}\n{indent(DECLARATION.rstrip(), _INDENT)},{end}{after}")
    before, end, after = value.read_text().partition("    fetcher_options: ")
    value.write_text(f"{before}{indent(FIELD, _INDENT)}{end}{after}")
    script = """
import sys
sys.path.insert(0, "docs")
import generate
from kafka_remote_client.config import split_config
from kafka_remote_client.errors import ConfigurationError
name = "fetch.remote.idle.timeout.ms"
assert split_config({})[0].idle_timeout_ms == 30_000
assert split_config({name: "500"})[0].idle_timeout_ms == 500
try:
    split_config({name: 5})
except ConfigurationError as error:
    assert name in str(error)
else:
    raise AssertionError("5 is out of bounds")
assert f"| `{name}` | int | 30000 | ms | 100 to 3600000 | How long" in generate.configs()
"""
    output_of(["-c", script], tree)


def test_the_verb_works_where_the_page_adds_it(tree: Path) -> None:
    cli = tree / "kafka_remote_client" / "cli"
    (cli / "topics.py").write_text(VERB)
    table = cli / "command_group.py"
    before, begin, after = table.read_text().partition("VERBS: Mapping[str, Verb] = {\n")
    table.write_text(f"{before}{begin}{indent(ENTRY, _INDENT)}{after}")
    store = ["--store", (golden_local() / "remote").as_uri()]
    topics = output_of(["-m", "kafka_remote_client", "topics", *store], tree).splitlines()
    assert "delrec" in topics
    assert topics == sorted(topics)
    script = "import sys; sys.path.insert(0, 'docs'); import generate; print(generate.command_line())"
    row = "| `topics` | lists the names of the topics in the tier | the store |"
    assert row in output_of(["-c", script], tree).splitlines()


def test_the_page_names_existing_files_and_few_at_a_time() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| a")]
    for kind in ("fetcher", "layout", "setting", "CLI verb", "metric", "fault"):
        assert any(kind in row[0] for row in rows), kind
    for _, files, proof in rows:
        named = re.findall(r"`([a-z_/]+(?:\.py|/))`", files)
        assert len(named) <= _AT_MOST_FILES
        assert [path for path in named if not (ROOT / path).exists()] == []
        assert set(re.findall(r"`(\w+Tests)`", proof)) <= set(testing.__all__)
