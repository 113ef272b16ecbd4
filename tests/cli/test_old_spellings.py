from __future__ import annotations

import pytest

from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.old_spellings import output_of, topics_of
from kafka_remote_client.cli.output import OutputFormat
from tests.support.golden import golden_local


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    with pytest.raises(SystemExit) as stopped:
        run([*arguments, "--store", f"file://{golden_local() / 'remote'}"])
    assert stopped.value.code == 0
    return capsys.readouterr()


@pytest.mark.parametrize("verb", [["ls"], ["dump", "--partition", "0", "--start", "0", "--end", "3"]], ids=["ls", "dump"])
def test_a_topic_as_an_option_works_with_one_warning(capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    new, quiet = printed(capsys, *verb, "epochs")
    old, said = printed(capsys, *verb, "--topic", "epochs")
    assert old == new
    assert "WARNING" not in quiet
    assert said.count("WARNING") == 1
    assert "kafka-remote: WARNING: --topic is deprecated" in said


def test_json_of_verify_works_with_one_warning(capsys: pytest.CaptureFixture[str]) -> None:
    new, quiet = printed(capsys, "verify", "--quick", "--output", "json", "epochs")
    old, said = printed(capsys, "verify", "--quick", "--json", "epochs")
    assert old == new
    assert "WARNING" not in quiet
    assert said.count("WARNING: --json is deprecated and will be removed in the next release; use --output json") == 1


@pytest.mark.parametrize("verb", ["ls", "dump", "plan", "verify"])
def test_help_names_the_new_spellings_only(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    with pytest.raises(SystemExit):
        run([verb, "--help"])
    shown = capsys.readouterr().out
    assert "TOPIC" in shown
    assert "--output" in shown
    assert "--topic " not in shown
    assert "--json" not in shown


def test_topics_of_both_spellings_are_combined() -> None:
    said: list[str] = []
    assert topics_of(["a"], "b, c,", said.append) == ("a", "b", "c")
    assert topics_of(None, None, said.append) == ()
    assert len(said) == 1


def test_json_precedes_the_default_format() -> None:
    said: list[str] = []
    assert output_of(OutputFormat.TEXT, as_json=True, say=said.append) is OutputFormat.JSON
    assert output_of(OutputFormat.TEXT, as_json=False, say=said.append) is OutputFormat.TEXT
    assert len(said) == 1
