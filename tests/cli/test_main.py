import subprocess
import sys

import pytest

from kafka_remote_client.cli.main import run
from tests.support.golden import golden_local


def test_no_arguments_show_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run([])
    assert "dump" in capsys.readouterr().err


def test_an_unknown_option_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["ls", "--store", "file:///", "--bogus"])
    assert stopped.value.code == 2
    assert "--bogus" in capsys.readouterr().err


def test_an_unknown_store_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["ls", "--store", "ftp://somewhere/"])
    assert stopped.value.code == 2
    assert "file://" in capsys.readouterr().err


def test_a_missing_extra_is_told_with_the_pip_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "kafka_remote_client.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stopped:
        run(["ls"])
    assert stopped.value.code == 2
    assert "pip install 'kafka-remote-client[cli]'" in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_the_dump_quietly() -> None:
    command = [sys.executable, "-c", "from kafka_remote_client.cli.main import run; run()", "dump"]
    command += ["--store", f"file://{golden_local() / 'remote'}", "codec-none-rdk"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.embedded
def test_the_demo_runs_as_a_command_and_its_status_tells(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["demo", "--records", "200"])
    printed = capsys.readouterr()
    assert stopped.value.code == 0, printed.err
    assert "digests" in printed.out
