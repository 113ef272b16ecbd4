"""The sockets of a cluster: one thread with an event loop, one listener for each broker.

Requests of a connection are answered one after the other, as brokers do. A request that the cluster does not speak ends its
connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
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
_BACKLOG = 512
_PAUSE_SECONDS = 1.0
"""The pause before the next attempt if no descriptor is free for a connection."""
_MAX_REQUEST = 100 << 20
_VERSIONS: Mapping[int, range] = {api.key: api.versions for api in PROTOCOL_APIS}


class Server:
    """``make`` builds the request handlers, once, in the server's thread. ``ports``: 0 takes a free one."""

    def __init__(self, ports: dict[int, int], make: Callable[[dict[int, tuple[str, int]]], Requests]) -> None:
        self._ports = ports
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._listeners: list[socket.socket] = []
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
            listener = socket.create_server((_HOST, port), backlog=_BACKLOG)
            listener.setblocking(False)
            self._listeners.append(listener)
            self.addresses[node_id] = listener.getsockname()
            self._accept_later(listener, node_id, requests)

    def _accept_later(self, listener: socket.socket, node_id: int, requests: Requests) -> None:
        self._loop.add_reader(listener, self._accept, listener, node_id, requests)

    def _accept(self, listener: socket.socket, node_id: int, requests: Requests) -> None:
        """Each accepted socket has a task, which closes it. asyncio's own server loses those that it accepts before a stop."""
        try:
            client, _ = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptors or memory
            _log.warning("accepting connections fails, next attempt in %.0f s: %s", _PAUSE_SECONDS, error.strerror)
            self._loop.remove_reader(listener)
            self._loop.call_later(_PAUSE_SECONDS, self._accept_later, listener, node_id, requests)
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._serve(node_id, requests, client))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        task.add_done_callback(lambda _: client.close())  # also if the task is cancelled before it begins

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
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        self._listeners.clear()
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

    async def _serve(self, node_id: int, requests: Requests, client: socket.socket) -> None:
        try:
            while True:
                answer = await _answered(node_id, requests, await self._read(client))
                if answer is not None:
                    await self._loop.sock_sendall(client, answer)
                await asyncio.sleep(0)  # others have a turn, also if the next request is there
        except (EOFError, ConnectionError):
            pass
        except ProtocolError as error:
            _log.warning("closing a connection to broker %d: %s", node_id, error)

    async def _read(self, client: socket.socket) -> bytes:
        size = int.from_bytes(await self._received(client, 4), "big")
        if size > _MAX_REQUEST:
            raise ProtocolError(f"a request has {size} bytes, more than {_MAX_REQUEST}")
        return await self._received(client, size)

    async def _received(self, client: socket.socket, length: int) -> bytes:
        """The next ``length`` bytes. Raises EOFError if the client has gone."""
        received = bytearray(length)
        left = memoryview(received)
        while left:
            count = await self._loop.sock_recv_into(client, left)
            if not count:
                raise EOFError
            left = left[count:]
        return bytes(received)


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
