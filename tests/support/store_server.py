"""A server process of an object store on loopback: the common part of the tests' S3, Azure and GCS servers."""

from __future__ import annotations

import itertools
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.ports import HOST, free_ports
from tests.support.processes import is_running
from tests.support.waiting import wait_until

__all__ = ["StoreServer"]

_KEEPER = Path(__file__).with_name("keeper.py")
_PATIENCE_SECONDS = 180.0
"""A time-out for a start that takes an idle machine a few seconds."""


class StoreServer(ABC):
    """One server process over ``directory``; a context manager. It ends with the process that started it at the latest."""

    ready_path = "/"
    what = "the server"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_ports(1)[0]
        self._pid: int | None = None
        self._names = itertools.count(1)

    @property
    def authority(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return self._pid

    @property
    def endpoint(self) -> str:
        return f"http://{self.authority}"

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The server's command line. Raises MissingPartError."""

    def variables(self) -> Mapping[str, str]:
        """Its environment variables in addition to this process's."""
        return {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        self._directory.mkdir(parents=True, exist_ok=True)
        keeper = [sys.executable, str(_KEEPER), str(os.getpid()), str(self._directory), *self.command()]
        environment = {**os.environ, **self.variables()}
        with (self._directory / "server.log").open("ab") as log:
            started = subprocess.run(
                keeper, env=environment, stdout=subprocess.PIPE, stderr=log, check=True, timeout=_PATIENCE_SECONDS
            )
        self._pid = int(started.stdout)
        wait_until(self._ready, f"{self.what} to be ready", seconds=_PATIENCE_SECONDS)

    stop_signal = signal.SIGTERM

    def stop(self) -> None:
        """Ends the server; its keeper reaps it."""
        pid = self._pid
        if pid is not None:
            os.kill(pid, self.stop_signal)
            wait_until(lambda: not is_running(pid), f"{self.what} to end")
            self._pid = None

    def new_name(self) -> str:
        """Returns a new bucket name."""
        return f"tier-{os.getpid()}-{next(self._names)}"

    def _context(self) -> ssl.SSLContext | None:
        """By which the server is asked whether it is ready; None without TLS."""
        return None

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(self.endpoint + self.ready_path, timeout=5, context=self._context()) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            error.close()
            return self.ready_path == "/"  # it answers, even with an error
        except OSError:
            return False
