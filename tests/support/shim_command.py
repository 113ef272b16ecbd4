"""The command ``kafka-remote shim`` as a user starts and stops it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["starts_and_stops"]

_COMMAND = Path(sys.executable).with_name("kafka-remote")


def starts_and_stops(arguments: Sequence[str], directory: Path | None = None) -> None:
    """Runs the command in ``directory`` until it serves, and ends it with SIGTERM. Raises AssertionError where it does not."""
    with subprocess.Popen([_COMMAND, *arguments], stderr=subprocess.PIPE, text=True, cwd=directory) as shim:
        assert shim.stderr is not None
        assert any("clients connect to" in line for line in shim.stderr)
        shim.send_signal(signal.SIGTERM)
        rest = shim.communicate(timeout=60)[1]
    assert shim.returncode == 0, rest
