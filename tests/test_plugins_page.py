"""docs/plugins.md: its plugin is installed, loaded by name, and passes the suite as on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from kafka_remote_client import errors, testing
from kafka_remote_client.config import split_config
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.registry import load_fetcher
from kafka_remote_client.testing import read_all, segment_metadata

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "plugins.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    plugin, suite = blocks("python")
    (tmp_path / "zip_fetcher.py").write_text(plugin)
    (tmp_path / "test_zip_fetcher.py").write_text(suite)
    info = tmp_path / "zip_fetcher-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zip-fetcher\nVersion: 1.0\n")
    lines = []
    for block in blocks("toml"):
        for group, entries in tomllib.loads(block)["project"]["entry-points"].items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("zip_fetcher", None)


def test_the_plugin_is_as_short_as_the_page_says() -> None:
    plugin = blocks("python")[0]
    assert "in 30 lines" in PAGE
    assert len([line for line in plugin[plugin.index("class ") :].splitlines() if line]) <= 30


def test_the_plugin_is_loaded_by_the_name_on_the_page(installed: Path) -> None:
    archive = installed / "tier.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("topic/segment.log", b"0123456789")
    config, _ = split_config({"remote.storage.fetcher.class": "zip", "remote.storage.fetcher.zip.file": str(archive)})
    fetcher = load_fetcher(config)
    found = segment_metadata(LocationMetadata(object_key="topic/segment.log").encode())
    assert read_all(fetcher.fetch_log_segment(found, 2, 5)) == b"234"
    fetcher.close()


def test_the_plugin_passes_the_suite_as_on_the_page(installed: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", str(installed)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d\d passed", done.stdout)


def test_every_name_on_the_page_exists() -> None:
    for name in re.findall(r"`(\w+Error)\b", PAGE):
        assert hasattr(errors, name)
    table = PAGE[PAGE.index("Other test tools") : PAGE.index("## 5.")]
    named = set(re.findall(r"`(\w+)[`(]", table))
    assert named <= set(testing.__all__) | {"inner"}
