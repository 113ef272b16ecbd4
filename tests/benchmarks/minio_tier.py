"""The tier of a real broker, copied into MinIO, behind a proxy that delays each request."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

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
        options = {**self._server.options, "s3.endpoint.url": f"http://{self.proxy.authority}"}
        return ShimProcess(
            self._broker,
            store=f"s3://{self._bucket}",
            store_host=self.proxy.authority,
            environment=self._server.environment,
            store_options=options,
        )

    def close(self) -> None:
        self._stack.close()
