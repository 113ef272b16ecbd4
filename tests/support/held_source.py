"""A location source whose answers about bounds come when a test allows them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.model import PartitionOffsets
from tests.support.embedded_topics import PATIENCE_SECONDS

__all__ = ["HeldSource"]


class HeldSource:
    """Gets bounds at once, and holds them back until the test sets ``released``. All other requests pass.

    ``answered``: set when it has bounds that it may hold back. ``requests``: the partitions of each request for bounds.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.answered, self.released = threading.Event(), threading.Event()
        self.requests: list[Sequence[tuple[str, int]]] = []

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        self.requests.append(partitions)
        answers: Mapping[tuple[str, int], PartitionOffsets | DirectFetchError] = self._inner.offsets_of(partitions, deadline)
        self.answered.set()
        assert self.released.wait(PATIENCE_SECONDS)
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
