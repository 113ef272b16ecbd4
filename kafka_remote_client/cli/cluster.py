"""``kafka-remote cluster``: an embedded cluster on known ports, with a topic that is mostly tiered, until it is stopped.

::

    localhost:9092   the cluster's broker, which grants nothing
    localhost:9192   the same behind a shim, which grants locations
    localhost:9193   the object origin, which serves the segments by signed URLs
    file:///tmp/kafka-tier   the tier, in Kafka's LocalTieredStorage layout

Records that an application produces meanwhile are tiered, too: sealed segments are copied once in a second.
"""

from __future__ import annotations

import shlex
import shutil
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Protocol

import attrs
import typer

from kafka_remote_client.cli.demo_run import demo_cluster
from kafka_remote_client.cli.options import Output
from kafka_remote_client.cli.output import OutputFormat, show_json
from kafka_remote_client.cli.signals import stop_signals
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.embedded.demo_data import fill
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_remote_client.remote_log.events import RemoteLogMetadata, RemoteLogSegmentMetadataUpdate

__all__ = [
    "TOPIC",
    "ClusterOutput",
    "CopiedSegment",
    "JsonOutput",
    "Places",
    "SegmentEvents",
    "TextOutput",
    "add_verb",
    "paste_blocks",
    "run_cluster",
]

TOPIC = "orders"
_ARCHIVE_SECONDS = 1.0
_LAYOUT = "local-tiered-storage"


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("cluster")(_cluster)


@attrs.frozen
class Places:
    """Ports on localhost, and the directory of the tier. ``shim`` False: only the cluster, for a shim that the user starts."""

    directory: Path
    broker_port: int = 9092
    shim_port: int = 9192
    origin_port: int = 9193
    shim: bool = True

    @property
    def tier(self) -> str:
        """The URL of the tier."""
        return self.directory.resolve().as_uri()


@attrs.frozen
class CopiedSegment:
    """A segment that is in the tier now and no longer on the broker. ``end_offset`` is its last offset."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    size_in_bytes: int


class ClusterOutput(Protocol):
    """What the cluster prints."""

    def copied(self, segment: CopiedSegment) -> None:
        """A segment was copied to the tier."""

    def ready(self, places: Places, records: int) -> None:
        """The first ``records`` records are written, and full segments are in the tier."""


class TextOutput:
    """Lines to read, and blocks to paste."""

    def copied(self, segment: CopiedSegment) -> None:
        print(
            f"{segment.topic}-{segment.partition}: offsets {segment.start_offset} to {segment.end_offset},"
            f" {segment.size_in_bytes} bytes: tiered, gone from the broker",
            flush=True,
        )

    def ready(self, places: Places, records: int) -> None:
        lines = ("", *paste_blocks(places), f"# {records} records of {TOPIC} are there. Ctrl-C stops the cluster.")
        print(*lines, sep="\n", flush=True)


class JsonOutput:
    """One object per line: ``{"copied": …}`` for each segment, and ``{"ready": …}`` once, with the addresses."""

    def copied(self, segment: CopiedSegment) -> None:
        show_json({"copied": attrs.asdict(segment)})

    def ready(self, places: Places, records: int) -> None:
        addresses = {
            "bootstrap_servers": f"localhost:{places.broker_port}",
            "shim_bootstrap_servers": f"localhost:{places.shim_port}" if places.shim else None,
            "origin_url": f"http://localhost:{places.origin_port}" if places.shim else None,
            "store": places.tier,
            "layout": _LAYOUT,
        }
        show_json({"ready": {"topic": TOPIC, "records": records, **addresses}})


def run_cluster(places: Places, records: int, clock: Clock, output: ClusterOutput, stopped: Callable[[float], bool]) -> None:
    """Runs the cluster until ``stopped``, which waits for some seconds, returns True.

    The directory is empty or absent before, and absent after. Raises ConfigurationError for a directory that holds something,
    and for a port that is taken.
    """
    _make_empty(places.directory)
    cluster = demo_cluster(
        str(places.directory),
        records,
        clock,
        listen=places.shim_port if places.shim else 0,
        origin_listen=places.origin_port if places.shim else 0,
        broker_listen=places.broker_port,
        observe=SegmentEvents(output.copied),
    )
    try:
        with closing(_started(cluster, places)):
            fill(cluster, topic=TOPIC, records=records)
            output.ready(places, records)
            while not stopped(_ARCHIVE_SECONDS):
                cluster.archive()
    finally:
        shutil.rmtree(places.directory, ignore_errors=True)


def _started(cluster: EmbeddedCluster, places: Places) -> EmbeddedCluster:
    try:
        return cluster.start()
    except (OSError, ConfigurationError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        ports = f"ports {places.broker_port}, {places.shim_port}, {places.origin_port}"
        raise ConfigurationError(f"{what}: the cluster needs {ports} of localhost; give other ports") from None


def _make_empty(directory: Path) -> None:
    try:
        found = next(directory.iterdir(), None)
    except FileNotFoundError:
        found = None
        _make(directory)
    except OSError as error:
        raise ConfigurationError(f"--directory: {directory}: {error.strerror}") from None
    if found is not None:
        raise ConfigurationError(f"--directory: {directory} is not empty; remove it, or give another directory")


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        raise ConfigurationError(f"--directory: {directory} cannot be made: {error.strerror}") from None


class SegmentEvents:
    """Passes each copied segment on. An observer of the tier's metadata."""

    def __init__(self, copied: Callable[[CopiedSegment], None]) -> None:
        self._copied = copied
        self._copying: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}

    def __call__(self, event: RemoteLogMetadata) -> None:
        """Takes one event."""
        if isinstance(event, RemoteLogSegmentMetadata):
            self._copying[event.remote_log_segment_id] = event
        elif isinstance(event, RemoteLogSegmentMetadataUpdate) and event.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            segment = self._copying.pop(event.remote_log_segment_id)
            tip = segment.topic_id_partition
            offsets = segment.start_offset, segment.end_offset
            self._copied(CopiedSegment(tip.topic, tip.partition, *offsets, segment.segment_size_in_bytes))


def paste_blocks(places: Places) -> list[str]:
    """The lines of one block for each way of using it. A block begins with a comment and ends with an empty line."""
    broker, shim, origin = (f"localhost:{port}" for port in (places.broker_port, places.shim_port, places.origin_port))
    store = f"--store {shlex.quote(places.tier)} --layout {_LAYOUT}"
    serve = f"kafka-remote shim --bootstrap-servers {broker} --listen {shim} --origin-listen {origin} {store}"
    consumer = [
        "# Python: swap the import",
        "from kafka_remote_client import Consumer",
        "consumer = Consumer({",
        f'    "bootstrap.servers": "{broker}",',
        '    "group.id": "report",',
        '    "auto.offset.reset": "earliest",',
        '    "fetch.remote.enabled": True,',
        '    "remote.storage.fetcher.class": "presigned",',
        f'    "fetch.remote.bootstrap.servers": "{shim}",',
        f'    "remote.storage.fetcher.allowed.hosts": "{origin}",',
        '    "remote.storage.fetcher.allow.http": True,',
        '    "remote.storage.fetcher.allow.private.addresses": True,',
        "})",
        f'consumer.subscribe(["{TOPIC}"])',
        "print(len(consumer.consume(500, timeout=30)), 'records')",
        'print(consumer.metrics()["remote-fetch-records-total"], "records came from the store")',
        "consumer.close()",
        "",
    ]
    start = [] if places.shim else ["# Shell: put the shim in front of the cluster", serve, ""]
    asking = [
        "# Shell: ask the cluster",
        f"kafka-remote offsets {TOPIC} --bootstrap-servers {broker}",
        f"kafka-remote locate {TOPIC} 0 10 --bootstrap-servers {shim}",
        "",
    ]
    reading = [
        "# Shell: read the tier without a broker",
        f"kafka-remote ls {store}",
        f"kafka-remote dump {store} --partition 0 --start 10 --end 20 --output json {TOPIC}",
        "",
    ]
    return [*start, *consumer, *asking, *reading]


def _cluster(
    records: Annotated[int, typer.Option("--records", min=1000, help="Number of records to write to the topic.")] = 20_000,
    directory: Annotated[
        Path, typer.Option("--directory", help="Directory of the tier. It must be empty, and is removed at the end.")
    ] = Path("/tmp/kafka-tier"),  # noqa: S108 - the name that the documents use; what is in it is refused
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the cluster.")] = 9092,
    shim_port: Annotated[int, typer.Option("--shim-port", min=1, max=65535, help="Port of the shim.")] = 9192,
    origin_port: Annotated[int, typer.Option("--origin-port", min=1, max=65535, help="Port of the object origin.")] = 9193,
    no_shim: Annotated[
        bool, typer.Option("--no-shim", help="Leave the last two ports to a shim that you start yourself.")
    ] = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Runs a cluster with a tiered topic "orders" until Ctrl-C. Needs no broker, Java or Docker."""
    places = Places(directory, port, shim_port, origin_port, not no_shim)
    shown = JsonOutput() if output is OutputFormat.JSON else TextOutput()
    with stop_signals() as signals:

        def stopped(seconds: float) -> bool:
            try:
                return signals.get(timeout=seconds) != signal.SIGHUP
            except TimeoutError:
                return False

        run_cluster(places, records, SystemClock(), shown, stopped)
