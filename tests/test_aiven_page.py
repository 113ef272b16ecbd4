"""docs/aiven.md: its commands run on segments that the plugin itself stored."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from kafka_remote_client.cli.main import run
from tests.support.certificates import Authority
from tests.support.golden import golden_aiven
from tests.support.ports import HOST, free_ports
from tests.support.shim_command import starts_and_stops

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = (_ROOT / "docs" / "aiven.md").read_text()
_COMMANDS = re.findall(r"^\$ (.*)$", _PAGE, re.MULTILINE)
_GOLDEN = golden_aiven("aiven-zstd-aes")
_PARTS = {
    "file:///var/kafka-tier": (_GOLDEN / "remote").as_uri(),
    "key1.pem": str(_GOLDEN / "keys" / "key1.private.der"),
    " orders": " txn",
}


@pytest.mark.parametrize("command", [command for command in _COMMANDS if re.match("kafka-remote (?:ls|dump) ", command)])
def test_each_command_runs(capsys: pytest.CaptureFixture[str], command: str) -> None:
    command = _in_place(command)
    with pytest.raises(SystemExit) as stopped:
        run(shlex.split(command)[1:])
    printed = capsys.readouterr().out
    assert stopped.value.code == 0
    if " dump " in command:
        assert {json.loads(line)["topic"] for line in printed.splitlines()} == {"txn"}
    else:
        assert "codec-none-rdk" in printed


def test_the_shim_accepts_the_same_options(tmp_path: Path) -> None:
    Authority().issue().write(tmp_path / "shim.pem")
    (command,) = [command for command in _COMMANDS if command.startswith("kafka-remote shim ")]
    for stand_in in ("localhost:9092", "localhost:9192", "localhost:9193"):
        command = command.replace(stand_in, f"{HOST}:{free_ports(1)[0]}")
    starts_and_stops(shlex.split(_in_place(command))[1:], tmp_path)


def _in_place(command: str) -> str:
    for stand_in, real in _PARTS.items():
        command = command.replace(stand_in, real)
    return command


def test_the_page_has_all_verbs_and_the_extra_exists() -> None:
    assert [command.split()[1] for command in _COMMANDS] == ["ls", "dump", "shim", "install"]
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"aiven", "cli"} <= set(extras)
    assert "'kafka-remote-client[aiven,cli]'" in _COMMANDS[-1]
