"""An Azure Blob server for the tests: Azurite, installed with npm into .cache/. It checks keys and shared access signatures."""

from __future__ import annotations

import os
import shutil
import ssl
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import jwt
from azure.storage.blob import ContainerClient
from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client.plugin import LocationMetadata, SignedUrl
from kafka_remote_client.testing import read_all, segment_metadata
from tests.support.artifacts import CACHE, MissingPartError, file_lock, run_or_missing
from tests.support.certificates import Authority
from tests.support.ports import HOST
from tests.support.store_server import StoreServer

__all__ = ["AzureServer", "AzureTlsServer", "server_program"]

_VERSION = "3.37.0"
_INSTALL_SECONDS = 1500  # in the background of other tests


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

    def read_signed(self, signed: SignedUrl, start: int, end: int) -> bytes:
        """Reads those bytes as a shim's client does. Raises what its fetcher raises."""
        fetcher = PresignedFetcher()
        fetcher.configure(
            {
                "remote.storage.fetcher.allowed.hosts": self.authority,
                "remote.storage.fetcher.allow.private.addresses": True,
                "fetch.remote.connect.timeout.ms": 60_000,
                "fetch.remote.read.timeout.ms": 60_000,
                **self._fetcher_settings(),
            }
        )
        location = LocationMetadata(url=signed.url, signed_headers=signed.headers).encode()
        try:
            return read_all(fetcher.fetch_log_segment(segment_metadata(location, end), start, end))
        finally:
            fetcher.close()

    def _fetcher_settings(self) -> dict[str, object]:
        return {"remote.storage.fetcher.allow.http": True}

    def _container(self, name: str) -> ContainerClient:
        return ContainerClient(f"{self.endpoint}/{self.account}", name, credential=self.key)


class AzureTlsServer(AzureServer):
    """The same over TLS. It accepts bearer tokens by their claims, without checking their signature: ``token``."""

    what = "the Azure server over TLS"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._authority = Authority()

    @property
    def endpoint(self) -> str:
        return f"https://{self.authority}"

    @property
    def ca_file(self) -> Path:
        return self._directory / "ca.pem"

    @property
    def options(self) -> dict[str, object]:
        return {"azure.account.name": self.account, "azure.endpoint.url": f"{self.endpoint}/{self.account}"}

    def command(self) -> Sequence[str]:
        issued = self._authority.issue()
        certificate, key = self._directory / "server.pem", self._directory / "server.key"
        certificate.write_text(issued.certificate_pem)
        key.write_text(issued.key_pem())
        self.ca_file.write_text(self._authority.pem)
        return [*super().command(), "--cert", str(certificate), "--key", str(key), "--oauth", "basic"]

    @staticmethod
    def token(seconds: float) -> str:
        """A token of an identity that is valid for that long from now; negative: it was."""
        now = int(time.time())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": "https://sts.windows.net/tenant/",
            "oid": "object",
            "tid": "tenant",
        }
        return jwt.encode({**claims, "iat": now - 3600, "nbf": now - 3600, "exp": now + int(seconds)}, "k" * 32)

    def _fetcher_settings(self) -> dict[str, object]:
        return {"remote.storage.fetcher.ssl.ca.location": str(self.ca_file)}

    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _container(self, name: str) -> ContainerClient:
        url = f"{self.endpoint}/{self.account}"
        return ContainerClient(url, name, credential=self.key, connection_verify=str(self.ca_file))
