"""docs/stores.md: its commands run with a real S3 server, its settings load, and its tables name what exists."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from kafka_remote_fetchers._obstore import _KEYS as OBSTORE_KEYS
from kafka_remote_fetchers._s3_client import _KEYS as S3_KEYS
from kafka_remote_fetchers.requests_session import RequestsFetcher
from kafka_remote_fetchers.s3 import S3Fetcher

from kafka_remote_client.cli.main import run
from kafka_remote_client.config import split_config
from kafka_remote_client.registry import STORES, load_fetcher, plugin_names, signer_schemes
from tests.support.golden import golden_local
from tests.support.ports import HOST, free_ports
from tests.support.s3_server import S3Server
from tests.support.shim_command import starts_and_stops

_ROOT = Path(__file__).resolve().parents[1]
_PAGE = (_ROOT / "docs" / "stores.md").read_text()
_COMMANDS = [shlex.split(command) for command in re.findall(r"^\$ (.*)$", _PAGE, re.MULTILINE)]


def _command(verb: str) -> list[str]:
    (found,) = [command for command in _COMMANDS if command[1] == verb]
    return found[1:]


@pytest.fixture
def in_place(s3_environment: S3Server) -> Any:
    """Replaces placeholders of the page by real values."""
    root = golden_local() / "remote"
    files = [path for path in root.rglob("*") if path.is_file() and "txn-0-" in path.as_posix()]
    bucket = s3_environment.new_bucket((f"kafka/{path.relative_to(root).as_posix()}", path.read_bytes()) for path in files)
    options = [f"--store-option={name}={value}" for name, value in s3_environment.options.items()]

    def replaced(arguments: list[str]) -> list[str]:
        stand_ins = {"s3://my-tier/": f"s3://{bucket}/", "orders": "txn", "localhost:": f"{HOST}:"}
        for stand_in, real in stand_ins.items():
            arguments = [argument.replace(stand_in, real) for argument in arguments]
        return [*arguments, *options]

    return replaced


@pytest.mark.parametrize("verb", ["ls", "dump"])
def test_each_command_runs(capsys: pytest.CaptureFixture[str], in_place: Any, verb: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(in_place(_command(verb)))
    assert stopped.value.code == 0
    assert "txn" in capsys.readouterr().out


def test_the_shim_starts(in_place: Any) -> None:
    command = [argument.replace("localhost:9192", f"{HOST}:{free_ports(1)[0]}") for argument in _command("shim")]
    starts_and_stops(in_place(command))


def _defined(name: str) -> Any:
    """What the block of the page that defines ``name`` makes of it."""
    blocks = re.findall(r"^```python\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)
    (block,) = (one for one in blocks if re.search(rf"^(?:class )?{name}\b", one, re.MULTILINE))
    told: dict[str, Any] = {}
    exec(block, told)
    return told[name]


def test_a_session_has_the_proxy_and_what_a_subclass_adds() -> None:
    settings = _defined("behind_a_proxy")
    config, rest = split_config(settings)
    assert not rest
    fetcher = load_fetcher(config)
    assert type(fetcher) is RequestsFetcher
    fetcher.close()
    corporate = _defined("CorporateFetcher")()
    corporate.configure(settings)
    assert corporate.new_session().headers["X-Department"] == "data"
    corporate.close()


def test_the_settings_make_a_fetcher(s3_environment: S3Server) -> None:
    config, rest = split_config(_defined("own_credentials"))
    assert not rest
    fetcher = load_fetcher(config)
    assert isinstance(fetcher, S3Fetcher)
    fetcher.close()


def test_the_page_names_all_schemes_options_and_extras() -> None:
    assert set(re.findall(r"^\| `([a-z0-9+]+)://", _PAGE, re.MULTILINE)) == set(plugin_names(STORES))
    assert set(signer_schemes()) <= set(plugin_names(STORES))
    names = {f"s3.{key}" for key in S3_KEYS} | {f"{kind}.{key}" for kind, keys in OBSTORE_KEYS.items() for key in keys}
    named = set(re.findall(r"^\| `((?:s3|gcs|azure)\.[a-z.]+)` \|", _PAGE, re.MULTILINE))
    assert named == names
    extras = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"s3", "gcs", "azure", "object-store"} <= set(extras)
    assert _COMMANDS[0] == ["pip", "install", "kafka-remote-client[shim,s3]"]
