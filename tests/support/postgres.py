"""A PostgreSQL server for tests, if it is installed. It listens only on a socket in its directory."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.support.waiting import wait_until

__all__ = ["PostgresServer", "postgres_programs"]

_PATIENCE_SECONDS = 60.0
_USER = "tests"


def postgres_programs() -> tuple[str, str] | None:
    """Returns ``initdb`` and ``postgres``; ``None`` if they are missing. Debian keeps them outside of PATH."""
    beside = [str(directory) for directory in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *beside])
    initdb, postgres = shutil.which("initdb", path=path), shutil.which("postgres", path=path)
    return (initdb, postgres) if initdb and postgres else None


class PostgresServer:
    """Runs during the context. Root starts it as another user, because it does not run as root."""

    def __init__(self, programs: tuple[str, str]) -> None:
        self._initdb, self._postgres = programs
        # Short, because socket paths are limited, and accessible to that user.
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-remote-pg-"))
        self.url = f"postgresql://{_USER}@/postgres?host={self._directory}"

    def __enter__(self) -> Self:
        with ExitStack() as undone:
            undone.callback(shutil.rmtree, self._directory)
            data = str(self._directory / "data")
            as_user = self._as_user()
            make = [self._initdb, "-D", data, "-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
            subprocess.run(make, check=True, capture_output=True, cwd=self._directory, **as_user)
            run = [self._postgres, "-D", data, "-k", str(self._directory), "-c", "listen_addresses=", "-c", "fsync=off"]
            with (self._directory / "log").open("wb") as log:
                self._process = subprocess.Popen(run, stdout=log, stderr=log, cwd=self._directory, **as_user)
            undone.callback(self._end)
            wait_until(self._answers, "PostgreSQL to answer")
            self._undone = undone.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._undone.close()

    def _end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_PATIENCE_SECONDS)

    def _as_user(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        user = next(entry for name in ("postgres", "nobody") if (entry := _entry(name)) is not None)
        os.chown(self._directory, user.pw_uid, user.pw_gid)
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            assert self._process.poll() is None, (self._directory / "log").read_text(errors="replace")[-2000:]
            return False
        return True


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
