import io
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from kafka_remote_client.cli.command_group import VERBS
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


@pytest.mark.parametrize(("verb", "extra"), [("ls", "cli"), ("shim", "shim")])
def test_a_missing_extra_is_told_with_the_pip_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str, extra: str
) -> None:
    monkeypatch.delitem(sys.modules, "kafka_remote_client.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stopped:
        run([verb])
    assert stopped.value.code == 2
    assert f"pip install 'kafka-remote-client[{extra}]'" in capsys.readouterr().err


_MODULE = [sys.executable, "-m", "kafka_remote_client"]
_DUMP = ["dump", "--store", f"file://{golden_local() / 'remote'}", "codec-none-rdk"]


def test_module_is_the_command() -> None:
    done = subprocess.run([*_MODULE, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"kafka-remote {version('kafka-remote-client')}\n"


def test_version_needs_no_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"kafka-remote {version('kafka-remote-client')}\n"


def test_reader_that_goes_away_ends_the_dump_quietly() -> None:
    with subprocess.Popen([*_MODULE, *_DUMP], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("arguments", [["--help"], ["ls", "--help"], ["--version"], ["ls", *_DUMP[1:]]])
def test_output_that_nobody_reads_has_status_141(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        done = subprocess.run([*_MODULE, *arguments], stdout=output, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("arguments", [["ls", "--help"], ["--version"], ["ls", *_DUMP[1:], "--output", "json"], _DUMP])
def test_a_full_disk_below_the_output_is_one_line_of_error(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*_MODULE, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (
        1,
        "kafka-remote: standard output cannot be written: No space left on device\n",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["verify", *_DUMP[1:3]], 0), ([*_DUMP, "--count", "3"], 0), (["ls", "--store", "file:///none"], 2)],
)
def test_a_full_disk_below_the_error_stream_changes_nothing(arguments: list[str], status: int) -> None:
    expected = subprocess.run([*_MODULE, *arguments], capture_output=True, check=False, timeout=60)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*_MODULE, *arguments], stdout=subprocess.PIPE, stderr=full, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)
    assert done.returncode == status


def _with_closed(streams: str, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the command without these streams, as a shell does with ``>&-``."""
    script = f'exec "$0" "$@" {streams}'
    return subprocess.run(
        ["/bin/sh", "-c", script, *_MODULE, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("arguments", [["ls", "--help"], ["--version"], ["ls", *_DUMP[1:]], _DUMP])
def test_a_closed_output_is_one_line_of_error(arguments: list[str]) -> None:
    done = _with_closed(">&-", arguments)
    assert (done.returncode, done.stderr) == (1, "kafka-remote: standard output is closed\n")


def test_a_verb_without_an_error_stream_has_its_output_and_status() -> None:
    done = _with_closed("2>&-", [*_DUMP, "--count", "3"])
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert _with_closed("2>&-", ["dump", *_DUMP[1:3], "no-topic"]).returncode == 2


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from kafka_remote_client.cli.main import run\n"
        "try: run(['ls', '--store', 'file:///none'])\n"
        "except SystemExit as ended: status = ended.code\n"
        "number = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
        "os._exit(status if number > 2 else 99)\n"
    )
    command = ["/bin/sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', sys.executable, "-c", code, str(tmp_path / "file")]
    assert subprocess.run(command, check=False, timeout=60).returncode == 2


def test_other_errors_of_the_system_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kafka_remote_client.cli.main._status", failed)
    with pytest.raises(PermissionError):
        run([])


def test_interrupted_verb_prints_nothing_and_has_status_130() -> None:
    with subprocess.Popen([*_MODULE, *_DUMP], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # the verb has begun
        process.send_signal(signal.SIGINT)
        _, remarks = process.communicate(
            timeout=60
        )  # reads: a signal just before a write to a full pipe does not end that write
    assert (process.returncode, remarks) == (130, b"")


@pytest.mark.parametrize("ends", ["return 130", "raise KeyboardInterrupt"], ids=["as-typer-does", "outside-of-typer"])
def test_interrupt_ends_the_command_though_its_output_pipe_is_full(ends: str) -> None:
    program = f"""
from kafka_remote_client.cli import main

def interrupted(_: object) -> int:
    print("a line that the pipe has no room for")
    {ends}

main._status = interrupted
main.run()
"""
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "wb", buffering=0) as output:
        os.set_blocking(writing, False)
        while output.write(b"x" * 65536) is not None:
            pass
        os.set_blocking(writing, True)
        command, buffered = [sys.executable, "-c", program], {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(command, env=buffered, stdout=output, stderr=subprocess.PIPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, b"")


def test_nothing_heavy_is_imported_before_interrupts_have_a_status() -> None:
    program = "import sys, kafka_remote_client.cli.main; print({'attr', 'typer'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


_IMPORTED = """
import sys
from kafka_remote_client.cli.main import run
try:
    run(["ls", "--help"])
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""


def test_verb_imports_no_other_verb() -> None:
    command = [sys.executable, "-c", _IMPORTED]
    modules = set(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr.split())
    assert {verb for verb in VERBS if f"kafka_remote_client.cli.{verb}" in modules} == {"ls"}
    assert modules & {f"kafka_remote_client.{other}" for other in ("embedded", "shim", "spark")} == set()


def test_a_module_without_a_verb_is_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["options"])
    assert stopped.value.code == 2
    assert "No such command 'options'" in capsys.readouterr().err


def test_help_of_all_verbs_needs_no_extra_of_one() -> None:
    extras = ("pyarrow", "numpy", "boto3", "obstore", "cryptography", "requests", "polars", "pyspark", "pyiceberg", "deltalake")
    without = "import sys; sys.modules.update(dict.fromkeys(sys.argv[1:]))"
    program = f"{without}; from kafka_remote_client.cli.main import run; run(['--help'])"
    command = [sys.executable, "-c", program, *extras]
    shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert shown.returncode == 0, shown.stderr
    assert all(verb in shown.stdout for verb in ("export", "plan", "shim", "verify"))


@pytest.mark.embedded
def test_the_demo_runs_as_a_command_and_its_status_tells(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["demo", "--records", "200"])
    printed = capsys.readouterr()
    assert stopped.value.code == 0, printed.err
    assert "digests" in printed.out


@pytest.mark.parametrize(
    ("typed", "completed"), [("kafka-remote exp", "export"), ("kafka-remote export --format i", "iceberg")]
)
def test_shell_completes_verbs_and_values(typed: str, completed: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_KAFKA_REMOTE_COMPLETE": "complete_bash"}
    command = [str(Path(sys.executable).with_name("kafka-remote"))]
    done = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr, done.returncode) == ([completed], "", 0)


@pytest.mark.parametrize("output", ["text", "json"])
def test_standard_output_is_utf_8_in_every_locale(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="iso-8859-1"))
    store = (golden_local() / "remote").as_uri()
    with pytest.raises(SystemExit) as ended:
        run(["dump", "epochs", "--store", store, "--value-format", "string", "--on-error", "column", "--output", output])
    assert ended.value.code == 0
    assert not written.getvalue().decode("utf-8").isascii()
