"""Options from a file and from variables: which one wins, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from kafka_remote_client.cli.app import app
from kafka_remote_client.cli.command_group import use_configuration
from kafka_remote_client.cli.configuration import VerbOption, given_options, read_options
from kafka_remote_client.cli.main import run
from kafka_remote_client.errors import ConfigurationError
from tests.support.artifacts import ROOT
from tests.support.cli_run import failed, printed
from tests.support.golden import golden_local

STORE = VerbOption("store", "store", repeatable=False)
OPTIONS = VerbOption("store_option", "store-option", repeatable=True)
LIMIT = VerbOption("most", "limit", repeatable=False)
VERBS = {"ls": [STORE, OPTIONS], "read-all": [STORE, LIMIT]}


def given(file: dict[str, object], **variables: str) -> dict[str, dict[str, object]]:
    return {verb: dict(options) for verb, options in given_options(VERBS, "c.toml", file, variables).items()}


def test_a_verbs_own_value_wins_and_a_variable_wins_over_the_file() -> None:
    file: dict[str, object] = {"store": "shared", "limit": 3}
    assert given(file) == {"ls": {"store": "shared"}, "read-all": {"store": "shared", "most": 3}}
    file["read-all"] = {"store": "own"}
    assert given(file)["read-all"] == {"store": "own", "most": 3}
    assert given(file, KAFKA_REMOTE_STORE="v") == {"ls": {"store": "v"}, "read-all": {"store": "v", "most": 3}}
    both = {"KAFKA_REMOTE_STORE": "v", "KAFKA_REMOTE_READ_ALL_STORE": "w"}
    assert given(file, **both) == {"ls": {"store": "v"}, "read-all": {"store": "w", "most": 3}}
    assert given({}, KAFKA_REMOTE_STORE="") == {"ls": {}, "read-all": {}}


@pytest.mark.parametrize("value", [{"a.b": 1, "c": "x"}, ["a.b=1", "c=x"]])
def test_a_repeatable_option_is_a_table_or_a_list(value: object) -> None:
    assert given({"store-option": value})["ls"] == {"store_option": ["a.b=1", "c=x"]}
    assert given({"store-option": "a.b=1"})["ls"] == {"store_option": ["a.b=1"]}
    assert given({}, KAFKA_REMOTE_STORE_OPTION="a.b=1 c=x")["ls"] == {"store_option": ["a.b=1", "c=x"]}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ({"stoer": "x"}, "--config: c.toml: unknown option or verb: stoer; did you mean store?"),
        ({"raed-all": {"limit": 1}}, "--config: c.toml: unknown option or verb: raed-all; did you mean read-all?"),
        ({"shim": {"listen": "x"}}, "--config: c.toml: unknown option or verb: shim"),
        ({"ls": {"limit": 1}}, "--config: c.toml: unknown option of ls: limit"),
        ({"ls": 1}, "--config: c.toml: ls must be a table [ls] with options of the verb"),
        ({"store": {"a": 1}}, "--config: c.toml: store must be a text, a number or true or false"),
        ({"store-option": [[1]]}, "--config: c.toml: store-option must be a text, a number or true or false"),
    ],
)
def test_what_no_verb_understands_is_refused(file: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        given(file)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a = ", "is not TOML: "),
        (b"\xff", "is not TOML: "),
        (b"a = " + b"[" * 100_000, "is not TOML: nested too deeply"),
        (b"a = " + b"9" * 5_000, "is not TOML: a number has too many digits"),
        (None, "cannot be read: No"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None, text: str) -> None:
    file = tmp_path / "c.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"--config: {file} {text}"):
        read_options(str(file))


def test_verbs_take_the_file_and_the_variables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tier = (golden_local() / "remote").as_uri()
    file = tmp_path / "kafka-remote.toml"
    file.write_text(f'output = "json"\nstore = "{tier}"\n[ls]\npartition = 0\n[dump]\nend = 1\nallow-offset-gaps = true\n')
    lines = printed(capsys, "--config", str(file), "ls", "delrec").splitlines()
    assert {json.loads(line)["partition"] for line in lines} == {0}
    monkeypatch.setenv("KAFKA_REMOTE_CONFIG", str(file))
    assert len(printed(capsys, "dump", "epochs", "--partition", "0").splitlines()) == 1
    with pytest.raises(SystemExit):
        run(["ls", "delrec", "--output", "text"])
    assert capsys.readouterr().out.startswith("delrec (topic id "), "the command line wins"
    monkeypatch.setenv("KAFKA_REMOTE_LS_PARTITION", "x")
    told, status = failed(capsys, "ls", "delrec")
    assert "Invalid value for '--partition'" in told
    assert status == 2
    monkeypatch.setenv("KAFKA_REMOTE_CONFIG", str(tmp_path / "none.toml"))
    with pytest.raises(SystemExit) as ended:
        run(["ls", "delrec"])
    assert ended.value.code == 2


def test_the_example_of_the_page_gives_options_of_the_verbs(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs" / "cli.md").read_text(), re.DOTALL | re.MULTILINE)
    file = tmp_path / "kafka-remote.toml"
    file.write_text(block)
    context = SimpleNamespace(command=typer.main.get_command(app), default_map=None)
    use_configuration(context, str(file))
    shared = {"store": "s3://my-tier/kafka", "store_option": ["s3.region=eu-west-1"]}
    assert context.default_map["ls"] == {**shared, "output": "json"}
    assert context.default_map["map"] == {**shared, "bootstrap_servers": "localhost:9092"}
    assert "shim" not in context.default_map


def test_a_table_of_the_shim_names_the_file_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "kafka-remote.toml"
    file.write_text("[shim]\nurl_ttl = 60\n")
    context = SimpleNamespace(command=typer.main.get_command(app), default_map=None)
    with pytest.raises(ConfigurationError, match=r"shim has a file of its own: kafka-remote shim --config FILE$"):
        use_configuration(context, str(file))
