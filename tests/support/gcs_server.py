"""A GCS server for the tests: fake-gcs-server, built from source. It checks no signature and no credential."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from tests.support.go_tools import go_program
from tests.support.ports import HOST
from tests.support.store_server import StoreServer

__all__ = ["GcsServer", "server_binary"]


def server_binary() -> Path:
    """The built server. Raises MissingPartError."""
    return go_program("github.com/fsouza/fake-gcs-server", "v1.56.1")


class GcsServer(StoreServer):
    """It keeps its objects in memory."""

    ready_path = "/_internal/healthcheck"
    what = "the GCS server"

    def command(self) -> Sequence[str]:
        where = ["-scheme", "http", "-host", HOST, "-port", self.authority.rpartition(":")[2]]
        return [str(server_binary()), *where, "-backend", "memory", "-public-host", self.authority, "-log-level", "error"]

    @property
    def options(self) -> dict[str, object]:
        """The options of a store of this server."""
        return {"gcs.endpoint.url": self.endpoint, "gcs.anonymous": True, "allow.http": True}

    def new_bucket(self, objects: Iterable[tuple[str, bytes]] = ()) -> str:
        """Creates a new bucket with these objects. Returns its name."""
        name = self.new_name()
        self._post("/storage/v1/b?project=tests", json.dumps({"name": name}).encode(), "application/json")
        self.put(name, objects)
        return name

    def put(self, bucket: str, objects: Iterable[tuple[str, bytes]]) -> None:
        """Stores objects, and overwrites existing ones."""
        for key, data in objects:
            path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(key, safe='')}"
            self._post(path, data, "application/octet-stream")

    def _post(self, path: str, body: bytes, kind: str) -> None:
        request = urllib.request.Request(self.endpoint + path, data=body, headers={"Content-Type": kind}, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
