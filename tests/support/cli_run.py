"""Runs ``kafka-remote`` in this process and returns what it printed."""

from __future__ import annotations

import pytest

from kafka_remote_client.cli.main import run

__all__ = ["failed", "printed"]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """Returns the standard output, at most 80 columns wide unless it is JSON. Fails for another status or remarks."""
    with pytest.raises(SystemExit) as ended:
        run(list(arguments))
    output = capsys.readouterr()
    assert (ended.value.code, output.err) == (status, "")
    assert all(len(line) <= 80 or line.startswith("{") for line in output.out.splitlines()), output.out
    return output.out


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, object]:
    """Returns the standard error and the status. Fails for output."""
    with pytest.raises(SystemExit) as ended:
        run(list(arguments))
    output = capsys.readouterr()
    assert output.out == ""
    return output.err, ended.value.code
