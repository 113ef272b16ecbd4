"""The sockets of a cluster: one thread with an event loop, one listener for each broker.

Requests of a connection are answered one after the other, as brokers do. A request that the cluster does not speak ends its
connection.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey, is_flexible
from kafka_remote_client.protocol.headers import frame
from kafka_remote_client.tiered_kafka.messages import MESSAGES
from kafka_remote_client.tiered_kafka.requests import PROTOCOL_APIS, Requests
from kafka_remote_client.wire import NO_TAGS, Reader, Writer

__all__ = ["Server"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_MAX_REQUEST = 100 << 20
_VERSIONS: Mapping[int, range] = {api.key: api.versions for api in PROTOCOL_APIS}


class Server:
    """``make`` builds the request handlers, once, in the server's thread. ``ports``: 0 takes a free one."""

    def __init__(self, ports: dict[int, int], make: Callable[[dict[int, tuple[str, int]]], Requests]) -> None:
        self._ports = ports
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="kafka-remote-tiered-kafka", daemon=True)
        self.addresses: dict[int, tuple[str, int]] = {}

    def start(self) -> None:
        """Returns when clients can connect. Raises OSError for a port that is taken."""
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        except BaseException:
            self.stop()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> None:
        requests = self._make(self.addresses)
        for node_id, port in self._ports.items():

            def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node_id: int = node_id) -> None:
                task = self._loop.create_task(self._serve(node_id, requests, reader, writer))
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)

            server = await asyncio.start_server(serve, _HOST, port)
            self._servers.append(server)
            host, taken = server.sockets[0].getsockname()[:2]
            self.addresses[node_id] = (host, taken)

    def stop(self) -> None:
        """Ends all connections and the thread. May be called twice."""
        if self._loop.is_closed():
            return
        if not self._thread.is_alive():
            self._loop.close()
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def call(self, function: Callable[[], _T]) -> _T:
        """What the function returns, called in the server's thread. Raises what it raises, and RuntimeError once stopped."""
        if self._loop.is_closed():
            raise RuntimeError("the cluster is closed")

        async def called() -> _T:
            return function()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    async def _serve(
        self, node_id: int, requests: Requests, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while True:
                answer = await _answered(node_id, requests, await _read(reader))
                if answer is not None:
                    writer.write(answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        except ProtocolError as error:
            _log.warning("closing a connection to broker %d: %s", node_id, error)
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > _MAX_REQUEST:
        raise ProtocolError(f"a request has {size} bytes, more than {_MAX_REQUEST}")
    return await reader.readexactly(size)


async def _answered(node_id: int, requests: Requests, data: bytes) -> bytes | None:
    header = Reader(data, what="the request's header")
    api_key, version, correlation_id = header.int16(), header.int16(), header.int32()
    header.nullable_string()  # the client's id
    flexible = _is_flexible(api_key, version)
    if flexible:
        header.tagged_section()
    body = await requests.answer(node_id, api_key, version, header.rest())
    if body is None:
        return None
    writer = Writer()
    writer.int32(correlation_id)
    if flexible and api_key != ApiKey.API_VERSIONS:
        writer.tagged_section(NO_TAGS)
    return frame(writer.getvalue(), body)


def _is_flexible(api_key: int, version: int) -> bool:
    """Whether that version of a message is flexible. Raises ProtocolError for one that the cluster does not speak."""
    message = MESSAGES.get(api_key)
    versions = message.versions if message is not None else _VERSIONS.get(api_key)
    if api_key != ApiKey.API_VERSIONS and (versions is None or version not in versions):
        raise ProtocolError(f"API key {api_key} version {version} is not spoken")
    return is_flexible(api_key, version) if message is None else message.is_flexible(version)
