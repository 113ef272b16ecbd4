"""A real S3 server for the tests: MinIO, built from source with Go into .cache/, run on loopback.

A test tool only: it is never shipped and never a dependency. Building takes some minutes, so nothing builds it but
``make s3-server`` and the first test that asks for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.artifacts import CACHE, MissingPartError, file_lock
from tests.support.kafka_broker import HOST, free_ports
from tests.support.waiting import wait_until

__all__ = ["S3Server", "server_binary"]

_MODULE = "github.com/minio/minio"
_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
_KEEPER = Path(__file__).with_name("keeper.py")


def server_binary() -> Path:
    """The built server, built when it is not there yet. Raises MissingPartError without Go or when the build fails."""
    target = CACHE / "go" / _VERSION / "minio"
    with file_lock(CACHE / "go.lock"):
        if not target.exists():
            go = shutil.which("go")
            if go is None:
                raise MissingPartError("go is not on PATH")
            environment = {**os.environ, "GOBIN": str(target.parent), "GOPATH": str(CACHE / "go" / "path")}
            # A read-only module cache could not be removed with the checkout.
            environment |= {"GOCACHE": str(CACHE / "go" / "build"), "GOFLAGS": "-modcacherw"}
            command = [go, "install", f"{_MODULE}@{_VERSION}"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1800)
            if done.returncode:
                raise MissingPartError(f"go cannot build the S3 server: {done.stderr.strip()[-2000:]}")
            # Its sources and objects are two gigabytes and of no further use.
            for leftover in ("path", "build"):
                shutil.rmtree(CACHE / "go" / leftover, ignore_errors=True)
    return target


class S3Server:
    """One server process over ``directory``; it ends with the process that started it at the latest."""

    access_key = "tests-access-key"
    secret_key = "tests-secret-key"
    region = "us-east-1"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_ports(1)[0]
        self._pid: int | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._port}"

    def start(self) -> None:
        """Starts the server and waits until it says that it is ready."""
        data = self._directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "MINIO_SITE_REGION": self.region,
            "MINIO_UPDATE": "off",
            "MINIO_BROWSER": "off",
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
        }
        server = [str(server_binary()), "server", "--quiet", "--address", f"{HOST}:{self._port}", str(data)]
        keeper = [sys.executable, str(_KEEPER), str(os.getpid()), str(self._directory), *server]
        with (self._directory / "server.log").open("ab") as log:
            started = subprocess.run(keeper, env=environment, stdout=subprocess.PIPE, stderr=log, check=True, timeout=30)
        self._pid = int(started.stdout)
        wait_until(self._ready, "the S3 server to be ready", seconds=30)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.endpoint}/minio/health/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        """Ends the server; its keeper reaps it."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGTERM)
            gone = Path("/proc", str(self._pid))
            wait_until(lambda: not gone.exists(), "the S3 server to end", seconds=30)
            self._pid = None


if __name__ == "__main__":
    print(server_binary().relative_to(CACHE.parent))
