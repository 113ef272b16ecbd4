"""A shim in a separate process that tests kill: ``ShimProcess`` starts it, and it runs this module."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.artifacts import ROOT
from tests.support.ports import servers_on_free_ports
from tests.support.reading import PATIENCE_SECONDS

__all__ = ["ShimProcess"]


class ShimProcess:
    """Ready after its construction; ``config``: ShimConfig's arguments. It also ends with this process."""

    def __init__(self, **config: Any) -> None:
        command = [sys.executable, "-m", "tests.support.shim_process", json.dumps(config)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.bootstrap_servers = self._process.stdout.readline().strip()
        assert self.bootstrap_servers, "the shim did not come up"

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    with servers_on_free_ports(), Shim(ShimConfig(**json.loads(sys.argv[1]))) as shim:
        if shim.wait_ready(PATIENCE_SECONDS):
            print(shim.bootstrap_servers, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
