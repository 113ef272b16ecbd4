"""Clients of the simulated shim: the real BrokerLocationSource, with leaders, retries and throttling.

Connections are a model. Its blocking calls run in virtual threads. The judge looks at each location that a client gets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.fetch.commands import LocationBatch
from kafka_remote_client.fetch.locate import Located, locate
from kafka_remote_client.fetch.partition_read import Locate
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.cluster_metadata import Address
from kafka_remote_client.model import PartitionOffsets, SegmentLocation
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from tests.simulation.application import Application
from tests.simulation.judge import ViolationError
from tests.simulation.known_locations import NearClient
from tests.simulation.location_faults import FaultySource
from tests.simulation.scenario import LOCATION_SECONDS
from tests.simulation.topic_logs import ADDRESSES
from tests.simulation.virtual_threads import Resume, VirtualLock

if TYPE_CHECKING:
    import asyncio

    from tests.simulation.shim import Shim
    from tests.simulation.world import World

__all__ = ["Bounds", "Client", "Clients"]

_NODES = {address: node for node, address in ADDRESSES.items()}
_NAMES = ("client A", "client B")

Bounds = Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]


class _Connection:
    """What the product calls of a BrokerConnection. One exchange at a time; a failure closes it."""

    def __init__(self, client: Client, node: int, number: int) -> None:
        self._client = client
        self._world = client.world
        self._node = node
        self._name = f"{client.name} {number}"
        self._lock = VirtualLock(client.world, client.world.threads)
        self._holder = 0
        self.closed = False

    @contextmanager
    def turn(self, deadline: Deadline | None = None) -> Iterator[None]:
        """See BrokerConnection."""
        if self._holder == threading.get_ident():
            yield
            return
        if not self._lock.acquire(timeout=-1 if deadline is None else deadline.remaining()):
            raise LocationError("timed out waiting for the connection")
        self._holder = threading.get_ident()
        try:
            yield
        finally:
            self._holder = 0
            self._lock.release()

    def send_receive(self, api_key: int, version: int, body: bytes, deadline: Deadline) -> memoryview:
        """See BrokerConnection."""
        with self.turn(deadline):
            if self.closed or deadline.expired():
                raise LocationError("closed, or too late")
            try:
                answer: memoryview = self._world.threads.block(partial(self._send, api_key, version, bytes(body), deadline))
            except LocationError:
                self.closed = True
                raise
            return answer

    def close(self) -> None:
        """See BrokerConnection."""
        self.closed = True

    def _send(self, api_key: int, version: int, body: bytes, deadline: Deadline, resume: Resume) -> None:
        world = self._world
        world.after(deadline.remaining(), partial(resume, error=LocationError("timed out")))
        if world.happens(world.scenario.locations_fail / 4):
            world.seen.saw("location-failed")
            world.after(world.some(world.scenario.latency), partial(resume, error=LocationError("the connection is lost")))
        else:
            world.after(world.some(world.scenario.latency / 4), partial(self._arrived, api_key, version, body, resume))

    def _arrived(self, api_key: int, version: int, body: bytes, resume: Resume) -> None:
        shim = self._client.shim
        task = self._world.loop.create_task(shim.answer(self._node, self._client.name, self._name, api_key, version, body))
        task.add_done_callback(partial(self._answered, resume))

    def _answered(self, resume: Resume, task: asyncio.Task[bytes]) -> None:
        if not task.cancelled():  # the world is over
            self._world.after(self._world.some(self._world.scenario.latency / 4), partial(resume, memoryview(task.result())))


class Client:
    """One process with a name, which is its principal."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.shim: Shim = world.shim
        self.name = name
        self._brokers = brokers = world.brokers
        self._connections = 0
        brokers.clients[name] = None
        host, port = ADDRESSES[1]
        self._source = BrokerLocationSource(f"{host}:{port}", client_id=name, clock=world.clock)
        self._asked = FaultySource(world, self._source)
        self._replace_sockets_and_locks()

    def _replace_sockets_and_locks(self) -> None:
        leaders: Any = self._source._leaders
        leaders._connection = self._connect
        leaders._cluster._refreshing = VirtualLock(self.world, self.world.threads)
        original: Callable[[Address, str], Any] = leaders._peer

        def peer(address: Address, connection: str) -> Any:
            found = original(address, connection)
            if not isinstance(found._lock, VirtualLock):
                found._lock = VirtualLock(self.world, self.world.threads)
            return found

        leaders._peer = peer

    def _connect(self, address: Address) -> _Connection:
        self._connections += 1
        return _Connection(self, _NODES[address], self._connections)

    def locate(self, batch: LocationBatch, then: Callable[[list[Located]], object]) -> None:
        """Requests locations. ``then`` gets the answers some time later."""
        self.world.threads.start(partial(self._locate, batch, then, self.world.clock.now))

    def bounds(self, keys: Iterable[tuple[str, int]], then: Callable[[Bounds], object]) -> None:
        """Requests the bounds of partitions' tiers. ``then`` gets the answers some time later."""
        self.world.threads.start(partial(self._bounds, list(keys), then))

    def _bounds(self, keys: list[tuple[str, int]], then: Callable[[Bounds], object]) -> None:
        found: Bounds
        try:
            found = self._asked.offsets_of(keys, Deadline(self.world.clock, LOCATION_SECONDS))
        except DirectFetchError as error:
            found = dict.fromkeys(keys, error)
        self.world.after(0.0, partial(then, found))

    def _locate(self, batch: LocationBatch, then: Callable[[list[Located]], object], asked_at: float) -> None:
        world = self.world
        deadline = Deadline(world.clock, LOCATION_SECONDS)
        found = locate(self._asked, batch.locates, (ORIGINAL_FORMAT,), deadline, world.clock, lambda _one, _deadline: False)
        for command, one in zip(batch.locates, found, strict=True):
            if isinstance(one.answer, SegmentLocation):
                self._judge(command, one.answer, asked_at)
        world.after(0.0, partial(then, found))

    def _judge(self, command: Locate, location: SegmentLocation, asked_at: float) -> None:
        brokers, where = self._brokers, f"{command.read.name} at offset {location.fetch_offset}"
        if brokers.denied.get(self.name, asked_at) < asked_at:
            raise ViolationError("J16", f"{where}: {self.name} has no READ, and gets a location")
        partition = brokers.partitions[command.read.partition]
        first, numbers = brokers.store.copies[location.metadata.remote_log_segment_id.id]
        start, end = location.fetch_offset, location.next_offset
        copied = numbers[start - first : end - first]
        current = [log for log in partition.versions if log.replaced_at >= asked_at]
        if copied not in [log.numbers(start, end) for log in current]:
            raise ViolationError("J15", f"{where}: the location up to {end} is not of the leader's log")


class Clients:
    """The applications of two clients, which share the shim, or of one that needs none.

    Its methods have the same names as those of application.py.
    """

    def __init__(self, world: World) -> None:
        if world.scenario.settled:
            self._applications = [Application(world, NearClient(world, _NAMES[0]))]
        else:
            self._applications = [Application(world, Client(world, name)) for name in _NAMES]

    def start(self) -> None:
        """Starts all reads."""
        for application in self._applications:
            application.start()

    def stop(self) -> bool:
        """Stops all reads for good. Returns True."""
        for application in self._applications:
            application.stop()
        return True

    def judge_end(self) -> None:
        """Nothing is left to judge: each location and each block was judged when it came."""
