"""The body of a checked 206, read straight from the socket into the caller's buffer."""

from __future__ import annotations

import http.client

from kafka_remote_client.errors import (
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import WritableBuffer
from kafka_remote_fetchers._body_deadline import BodyDeadline
from kafka_remote_fetchers._connections import ConnectionPool, StoreConnection
from kafka_remote_fetchers._transport_errors import guarded

__all__ = ["HttpRangeStream"]


class HttpRangeStream:
    """A ReadableStream of exactly ``length`` bytes. Gives its connection back as soon as the last one is read."""

    def __init__(
        self,
        pool: ConnectionPool,
        connection: StoreConnection,
        response: http.client.HTTPResponse,
        length: int,
        deadline: BodyDeadline,
    ) -> None:
        self._pool = pool
        self._connection: StoreConnection | None = connection
        self._host = connection.authority
        self._response = response
        self._length = length
        self._remaining = length
        self._deadline = deadline
        self._failure: RemoteStorageError | None = None

    def readinto(self, buffer: WritableBuffer, /) -> int:
        """Fills ``buffer`` as far as the range goes. Where the store fails first, returns what came; the next call raises."""
        if self._failure is not None:
            raise self._failure
        with memoryview(buffer) as whole, whole.cast("B") as data:
            wanted = min(len(data), self._remaining)
            if wanted and self._connection is None:
                raise RemoteStorageUnavailableError("the stream is closed")
            filled = 0
            while filled < wanted:
                try:
                    with data[filled:wanted] as rest:
                        filled += self._read_some(rest)
                except RemoteStorageError as failure:
                    self._fail(failure)
                    if not filled:
                        raise
                    break
        self._remaining -= filled
        if filled and not self._remaining:
            self._finish()
        return filled

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.discard(connection)

    def _read_some(self, rest: memoryview) -> int:
        self._deadline.waits()
        if self._response.chunked:  # readinto of http.client takes a short read of a chunk for its end
            data = guarded(self._host, self._response.read1, len(rest))
            rest[: len(data)] = data
            count = len(data)
        else:
            count = guarded(self._host, self._response.readinto, rest)
        if count == 0:
            raise RemoteStorageUnavailableError(f"{self._host} ended its response before the range of {self._length} bytes did")
        self._deadline.received(count)
        return count

    def _finish(self) -> None:
        """The range is complete: keeps the connection where the answer is at its end too."""
        connection, self._connection = self._connection, None
        assert connection is not None
        if self._response.chunked and not self._ends():
            self._pool.discard(connection)
            raise InvalidStorageResponseError(f"{self._host} sent more than the range")
        if self._response.isclosed() and not self._response.will_close:
            self._pool.release(connection)
        else:
            self._pool.discard(connection)

    def _ends(self) -> bool:
        """Reads the last, empty chunk. Where that fails the range is still whole, only the connection is not kept."""
        try:
            return not guarded(self._host, self._response.read, 1)
        except RemoteStorageError:
            return True

    def _fail(self, failure: RemoteStorageError) -> None:
        self._failure = failure
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.discard(connection)
            if isinstance(failure, RemoteStorageTimeoutError):
                self._pool.drop_idle(connection)  # a path that swallows packets swallows those of its neighbours
