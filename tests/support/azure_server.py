"""An Azure Blob server for the tests: Azurite, installed with npm into .cache/. It checks keys and shared access signatures."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from azure.storage.blob import ContainerClient

from tests.support.artifacts import CACHE, MissingPartError, file_lock, run_or_missing
from tests.support.ports import HOST
from tests.support.store_server import StoreServer

__all__ = ["AzureServer", "server_program"]

_VERSION = "3.35.0"
_INSTALL_SECONDS = 300


def server_program() -> tuple[str, Path]:
    """Node.js and the server's script, installed when it is not there yet. Raises MissingPartError."""
    home = CACHE / "azurite" / _VERSION
    script = home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise MissingPartError("node and npm are not on PATH")
    with file_lock(CACHE / "azurite.lock"):
        if not script.exists():
            home.mkdir(parents=True, exist_ok=True)
            install = [
                npm,
                "install",
                "--prefix",
                str(home),
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                f"azurite@{_VERSION}",
            ]
            environment = {**os.environ, "npm_config_cache": str(CACHE / "npm")}
            try:
                run_or_missing(install, "npm cannot install azurite", seconds=_INSTALL_SECONDS, environment=environment)
            finally:
                shutil.rmtree(CACHE / "npm", ignore_errors=True)
    return node, script


class AzureServer(StoreServer):
    """A server with one account, whose key is public. It keeps its blobs in memory."""

    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    what = "the Azure server"

    def command(self) -> Sequence[str]:
        node, script = server_program()
        where = ["--blobHost", HOST, "--blobPort", self.authority.rpartition(":")[2]]
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return [node, str(script), *where, *quiet, "--inMemoryPersistence"]

    @property
    def options(self) -> dict[str, object]:
        """The options of a store of this server, without credentials."""
        url = f"{self.endpoint}/{self.account}"
        return {"azure.account.name": self.account, "azure.endpoint.url": url, "allow.http": True}

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which obstore finds this server's credentials."""
        return {"AZURE_STORAGE_ACCOUNT_KEY": self.key}

    def new_bucket(self, objects: Iterable[tuple[str, bytes]] = ()) -> str:
        """Creates a new container with these blobs. Returns its name."""
        name = self.new_name()
        with self._container(name) as container:
            container.create_container()
        self.put(name, objects)
        return name

    def put(self, bucket: str, objects: Iterable[tuple[str, bytes]]) -> None:
        """Stores blobs, and overwrites existing ones."""
        with self._container(bucket) as container:
            for key, data in objects:
                container.upload_blob(key, data, overwrite=True)

    def _container(self, name: str) -> ContainerClient:
        return ContainerClient(f"{self.endpoint}/{self.account}", name, credential=self.key)
