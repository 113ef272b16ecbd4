"""A real S3 server for the tests: MinIO, built from source. It checks signatures, expiry and signed ranges."""

from __future__ import annotations

import io
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.support.go_tools import go_program
from tests.support.store_server import StoreServer

__all__ = ["S3_VARIABLES", "S3Server", "server_binary"]

S3_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "tests-access-key",
    "AWS_SECRET_ACCESS_KEY": "tests-secret-key",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""The environment of processes that must find the credentials of any S3Server, and no others."""
_PUTTERS = 4


def server_binary(*, more_to_build: bool = False) -> Path:
    """The built server. Raises MissingPartError."""
    return go_program("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c", more_to_build=more_to_build)


class S3Server(StoreServer):
    """MinIO over a directory, with one pair of keys with all permissions."""

    region = "us-east-1"
    ready_path = "/minio/health/ready"
    what = "the S3 server"

    def __init__(self, directory: Path, *, access_key: str = "", secret_key: str = "") -> None:
        """The keys are those of S3_VARIABLES unless told otherwise."""
        super().__init__(directory)
        self.access_key = access_key or S3_VARIABLES["AWS_ACCESS_KEY_ID"]
        self.secret_key = secret_key or S3_VARIABLES["AWS_SECRET_ACCESS_KEY"]
        self._client: Any = None

    def command(self) -> Sequence[str]:
        data = self._directory / "data"
        data.mkdir(exist_ok=True)
        return [str(server_binary()), "server", "--quiet", "--address", self.authority, str(data)]

    def variables(self) -> Mapping[str, str]:
        return {
            "MINIO_SITE_REGION": self.region,
            "MINIO_UPDATE": "off",
            "MINIO_BROWSER": "off",
            "MINIO_ROOT_USER": self.access_key,
            "MINIO_ROOT_PASSWORD": self.secret_key,
        }

    @property
    def options(self) -> dict[str, object]:
        """The options of a store of this server, without credentials."""
        return {"s3.endpoint.url": self.endpoint, "s3.region": self.region, "s3.path.style": True, "allow.http": True}

    @property
    def fetcher_settings(self) -> dict[str, object]:
        """The same for a fetcher."""
        return {f"remote.storage.fetcher.{name}": value for name, value in self.options.items()}

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which boto3 and obstore find this server's credentials, and no others."""
        return {**S3_VARIABLES, "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def _ready(self) -> bool:
        """Whether it has loaded its keys: until then it answers unknown keys with 503 instead of 403."""
        if not super()._ready():
            return False
        try:
            with urllib.request.urlopen(self._made("nobody", "nothing").generate_presigned_url("list_buckets"), timeout=5):
                return False
        except urllib.error.HTTPError as error:
            with error:
                return error.code == HTTPStatus.FORBIDDEN

    @property
    def client(self) -> Any:
        """A boto3 client with all rights."""
        if self._client is None:
            self._client = self._made(self.access_key, self.secret_key)
        return self._client

    def _made(self, access_key: str, secret_key: str) -> Any:
        session = boto3.session.Session(access_key, secret_key, region_name=self.region)
        config = Config(signature_version="s3v4", s3={"addressing_style": "path"}, max_pool_connections=_PUTTERS)
        return session.client("s3", endpoint_url=self.endpoint, config=config)

    def new_bucket(self, objects: Iterable[tuple[str, bytes]] = ()) -> str:
        """Creates a new bucket with these objects. Returns its name."""
        name = self.new_name()
        self.client.create_bucket(Bucket=name)
        self.put(name, objects)
        return name

    def put(self, bucket: str, objects: Iterable[tuple[str, bytes]]) -> None:
        """Stores objects, and overwrites existing ones."""
        client = self.client
        with ThreadPoolExecutor(_PUTTERS) as threads:
            list(threads.map(lambda item: client.put_object(Bucket=bucket, Key=item[0], Body=item[1]), objects))

    def put_empty(self, bucket: str, names: Iterable[str]) -> None:
        """Many objects without content, by one request: the server unpacks an archive."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name))
        unpack = {"Snowball-Auto-Extract": "true"}
        self.client.put_object(Bucket=bucket, Key="archive.tar", Body=archive.getvalue(), Metadata=unpack)

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        super().stop()

    def restart_as(self, access_key: str, secret_key: str) -> None:
        """Restarts at the same address, with the same objects, and accepts these credentials instead of the former ones."""
        self.stop()
        self.access_key, self.secret_key = access_key, secret_key
        self.start()
