"""The commands of docs/restore.md run on a golden tier."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from kafka_remote_client.cli.main import run
from kafka_remote_client.restore.bootstrap_checkpoint import BOOTSTRAP, has_topics
from tests.support.golden import golden_local
from tests.support.new_node import formatted

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "restore.md").read_text(encoding="utf-8")


def test_its_commands_plan_and_restore(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (configs,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    plan, restore = re.findall(r"^ +(kafka-remote restore .*)$", PAGE, re.MULTILINE)
    node = formatted(tmp_path / "kafka-log")
    monkeypatch.chdir(tmp_path)
    Path("topics.toml").write_text(configs.replace("orders", "txn"))
    for command in (plan, restore):
        assert not has_topics((node / BOOTSTRAP).read_bytes())
        there = {"orders": "txn", "file:///var/kafka-tier": (golden_local() / "remote").as_uri(), "/var/kafka-log": str(node)}
        with pytest.raises(SystemExit) as stopped:
            run([there.get(word, word) for word in shlex.split(command)[1:]])
        assert stopped.value.code == 0, capsys.readouterr().err
    assert has_topics((node / BOOTSTRAP).read_bytes())


def test_its_assignment_places_replicas(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (assignment,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (command,) = re.findall(r"^kafka-remote restore .*\\\n.*$", PAGE, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    Path("topics.toml").write_text('[delrec]\n"retention.ms" = -1\n')
    Path("nodes.json").write_text(assignment.replace("orders", "delrec"))
    nodes = {f"/var/kafka-log-{node}": str(formatted(tmp_path / f"node-{node}", node)) for node in (1, 2, 3)}
    there = {"orders": "delrec", "file:///var/kafka-tier": (golden_local() / "remote").as_uri(), **nodes}
    with pytest.raises(SystemExit) as stopped:
        run([there.get(word, word) for word in shlex.split(command.replace("\\\n", " "))[1:]])
    assert stopped.value.code == 0, capsys.readouterr().err
    assert [(Path(node) / "delrec-0").is_dir() for node in nodes.values()] == [True, True, False]
    assert all(has_topics((Path(node) / BOOTSTRAP).read_bytes()) for node in nodes.values())


def test_its_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["restore", "--help"])
    told = capsys.readouterr().out
    options = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert len(options) > 5
    assert [option for option in options if option not in told] == []
