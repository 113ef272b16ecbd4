"""Verbs that take long show progress on a terminal, and on nothing else."""

import os
import pty
import subprocess
import sys

import pytest

from tests.support.golden import golden_local

_STORE = ["--store", (golden_local() / "remote").as_uri()]
_TOPIC = "codec-zstd-java"
_VERBS = {
    "verify": (["verify"], b"verify"),
    "ls": (["ls"], b"listing the store"),
    "map": (["map", _TOPIC], b"reading what is known of " + _TOPIC.encode()),
    "cost": (["cost", _TOPIC], b"listing the store"),
    "bench": (["bench", _TOPIC, "--seconds=0.1", "--range-bytes=1000", "--concurrency=1"], b"bench"),
}


def _on_a_terminal(arguments: list[str]) -> tuple[int, bytes, bytes]:
    """Exit status, standard output through a pipe, and what a terminal as standard error got."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "kafka_remote_client", *arguments]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the terminal's other end is closed
                break
            if not piece:
                break
            shown += piece
        out, _ = process.communicate(timeout=60)
    os.close(master)
    return process.returncode, out, shown


@pytest.mark.parametrize("verb", _VERBS)
def test_a_terminal_shows_progress_and_a_pipe_does_not(verb: str) -> None:
    arguments, progress = _VERBS[verb]
    status, out, shown = _on_a_terminal([*arguments, *_STORE])
    assert status == 0, shown
    assert progress in shown
    assert b"\x1b[" in shown
    assert b"\x1b[" not in out


def test_without_a_terminal_nothing_but_the_table_is_printed() -> None:
    arguments, _ = _VERBS["map"]
    done = subprocess.run(
        [sys.executable, "-m", "kafka_remote_client", *arguments, *_STORE], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout
