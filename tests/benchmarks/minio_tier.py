"""The tier of a real broker, copied into MinIO, behind a proxy that delays each request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from tests.benchmarks.running import ShimProcess
from tests.benchmarks.topics import TieredTopic
from tests.support.delaying_proxy import DelayingProxy
from tests.support.kafka_broker import KafkaBroker
from tests.support.s3_server import S3Server

__all__ = ["MinioTier"]


class MinioTier:
    """A bucket with the objects that the broker's LocalTieredStorage has, under the same keys. A shim signs URLs of it.

    The endpoint that shim and clients know is the proxy, so both pay its latency. Raises MissingPartError where MinIO cannot
    be built.
    """

    def __init__(self, broker: KafkaBroker, directory: Path) -> None:
        self._broker = broker
        self._stack = ExitStack()
        self._server = self._stack.enter_context(S3Server(directory))
        self.proxy = self._stack.enter_context(DelayingProxy(self._server.authority))
        self._bucket = self._server.new_bucket()

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}"

    @property
    def options(self) -> dict[str, object]:
        """The options of a store behind the proxy, without credentials."""
        return {**self._server.options, "s3.endpoint.url": f"http://{self.proxy.authority}"}

    @property
    def environment(self) -> dict[str, str]:
        """The variables with the credentials."""
        return self._server.environment

    @contextmanager
    def variables(self) -> Iterator[None]:
        """This process has the credentials."""
        with mock.patch.dict(os.environ, self.environment):
            yield

    @property
    def pids(self) -> dict[str, int]:
        """The process of each server, by name."""
        assert self._server.pid is not None
        return {"minio": self._server.pid, "proxy": self.proxy.pid}

    def add(self, topic: TieredTopic) -> None:
        """Copies the tiered objects of a topic."""
        root = self._broker.store_directory
        files = (path for path in root.glob(f"*/{topic.name}-*/*") if path.is_file())
        self._server.put(self._bucket, ((path.relative_to(root).as_posix(), path.read_bytes()) for path in files))

    def shim(self) -> ShimProcess:
        """A shim over the bucket."""
        return ShimProcess(
            self._broker,
            store=self.url,
            store_host=self.proxy.authority,
            environment=self.environment,
            store_options=self.options,
        )

    def close(self) -> None:
        self._stack.close()
