"""Throughput of a consumer through the shim while 1,000 peers misuse the shim, relative to its undisturbed throughput.

    python -m tests.benchmarks.shim_hostile [--json FILE] [--peers 1000] [--seconds 3] [--rounds 3] [--tls] [--kinds slow …]
        [--addresses 1] [--shim-options="--max-loop-share-per-ip 0.25"]

A real broker, two shims by their command, the peers (tests/benchmarks/shim_attackers.py, six kinds) and a plain consumer of
confluent_kafka are processes on one machine. The consumer reads a local topic again and again through the first shim. Three
kinds of spans take turns in one run: without peers, with the peers at the second shim (``beside``), and with the peers at the
first one (``with``). The peers take CPU time of the machine, in their own process and in the broker. At the second shim they
take it too, but no time of the event loop that serves the consumer. So the spans ``beside`` say what the machine has left.

All limits of the shims have their defaults unless ``--shim-options`` says otherwise. The peers of a kind share
``--addresses`` addresses; with 0 they all have the consumer's own.

================ ===================================================================================================
figure           is
================ ===================================================================================================
``mb_…``         median MB/s of the consumer in spans ``without``, ``beside`` and ``with``
``ratio``        ``mb_with`` over ``mb_without``: what the consumer keeps in all
``ratio_loop``   ``mb_with`` over ``mb_beside``: what it keeps of what the machine has left
``shim_cpu_…``   CPU seconds of the first shim per second; ``peers_cpu``: of the peers in spans ``with``
``shim_cpu_gb``  CPU seconds of the first shim for each GB that the consumer read, ``_without`` and ``_with`` peers
``flood_…``      answers that flooding peers got per second in spans ``beside`` and ``with``
``connect_…``    median ms of another honest client until it is admitted: connection, TLS handshake, ApiVersions and Metadata;
                 ``most``: the longest in spans ``with``; ``failed``: how many were closed or took more than 20 s
================ ===================================================================================================

Prints JSON. The exit status is 1 if the ratio is below 0.9.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import ssl
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from kafka_remote_client.protocol.tls import client_context
from tests.benchmarks.running import cpu_seconds, machine
from tests.benchmarks.shim_attackers import ALL_KINDS, KINDS, metadata_request, versions_request
from tests.support.asked_process import AskedProcess
from tests.support.certificates import Authority
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_client import RawClient
from tests.support.killable_shim import KillableShim

__all__ = ["LEAST_RATIO", "measured", "missed"]

LEAST_RATIO = 0.9
_TOPIC = "honest"
_VALUE_BYTES = 10_000
_SETTLE_SECONDS = 5.0
_MOST_AT_ONCE = 1_000
_BETWEEN_NEWCOMERS_SECONDS = 0.5


def missed(figures: dict[str, float]) -> list[str]:
    """One line for a ratio below the target."""
    ratio = figures["ratio"]
    return [] if ratio >= LEAST_RATIO else [f"missed: ratio is {ratio:.2f}, not at least {LEAST_RATIO}"]


class _Honest:
    """Reads the topic repeatedly."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._consumer = Consumer(
            {"group.id": "honest", "enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0, **settings}
        )
        self._begin()

    def _begin(self) -> None:
        self._consumer.assign([TopicPartition(_TOPIC, 0, OFFSET_BEGINNING)])

    def rate(self, seconds: float) -> float:
        """Bytes per second."""
        began, read = time.monotonic(), 0
        while (now := time.monotonic()) < began + seconds:
            for message in self._consumer.consume(_MOST_AT_ONCE, 0.1):
                error = message.error()
                if error is None:
                    read += len(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._begin()
        return read / (now - began)

    def close(self) -> None:
        self._consumer.close()


class _Newcomers:
    """A client that connects again and again, in a thread. A context manager."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        self._address = address
        self._tls = tls
        self._took: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.failed = 0

    def taken(self) -> list[float]:
        """The seconds of each connection since the last call."""
        took, self._took = self._took, []
        return took

    def _run(self) -> None:
        while not self._ended.wait(_BETWEEN_NEWCOMERS_SECONDS):
            began = time.monotonic()
            try:
                with RawClient(self._address, tls=self._tls) as client:
                    client.send(versions_request(1))
                    client.send(metadata_request())
                    if not (client.read() and client.read()):
                        raise ConnectionError
            except OSError:
                self.failed += 1
            else:
                self._took.append(time.monotonic() - began)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def _filled(broker: KafkaBroker, mib: int) -> None:
    broker.create_topic(_TOPIC, tiered=False, segment_bytes=1 << 30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for _ in range((mib << 20) // _VALUE_BYTES):
        producer.produce(_TOPIC, bytes(_VALUE_BYTES), partition=0)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the topic cannot be written")


def measured(
    broker: KafkaBroker,
    directory: Path,
    peers: int,
    kinds: Sequence[str],
    seconds: float,
    rounds: int,
    *,
    tls: bool,
    addresses: int,
    shim_options: Sequence[str] = (),
) -> dict[str, float]:
    """The figures of the module's table."""
    _filled(broker, 200)
    options = list(shim_options)
    honest_settings: dict[str, Any] = {}
    arguments: list[str] = []
    if tls:
        authority = Authority()
        authority.issue().write(directory / "shim.pem")
        authority.write(directory / "ca.pem")
        options += ["--ssl-certificate", str(directory / "shim.pem")]
        honest_settings = {"security.protocol": "ssl", "ssl.ca.location": str(directory / "ca.pem")}
        arguments.append(str(directory / "ca.pem"))
    spans: dict[str, list[float]] = {"without": [], "beside": [], "with": []}
    cpu: dict[str, list[float]] = {"shim_without": [], "shim_beside": [], "shim_with": [], "peers_with": []}
    flood: dict[str, list[float]] = {"beside": [], "with": []}
    took: dict[str, list[float]] = {name: [] for name in spans}
    with ExitStack() as stack:
        shim = stack.enter_context(KillableShim(broker, directory / "shim.log", *options))
        assert shim._process is not None
        other = stack.enter_context(KillableShim(broker, directory / "other.log", *options))
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.shim_attackers",
            _TOPIC,
            str(peers),
            ",".join(kinds),
            str(addresses),
            *arguments,
        ]
        attackers = AskedProcess(command)
        stack.callback(attackers.stop)
        honest = stack.enter_context(closing(_Honest({"bootstrap.servers": shim.bootstrap_servers, **honest_settings})))
        context = client_context({"security.protocol": "ssl", "ssl.ca.location": str(directory / "ca.pem")}) if tls else None
        newcomers = stack.enter_context(_Newcomers(shim.bootstrap_servers, context))
        honest.rate(_SETTLE_SECONDS)
        for _ in range(rounds):
            for name, peers_of in (("without", None), ("beside", other), ("with", shim)):
                attackers.ask("off" if peers_of is None else f"on {peers_of.bootstrap_servers.rpartition(':')[2]}")
                honest.rate(_SETTLE_SECONDS)
                answers = json.loads(attackers.ask("tell"))["answers"]
                shim_before, peers_before = cpu_seconds(process=shim._process.pid), cpu_seconds(process=attackers.pid)
                newcomers.taken()
                spans[name].append(honest.rate(seconds))
                took[name] += newcomers.taken()
                cpu[f"shim_{name}"].append((cpu_seconds(process=shim._process.pid) - shim_before) / seconds)
                if name == "with":
                    cpu["peers_with"].append((cpu_seconds(process=attackers.pid) - peers_before) / seconds)
                if name in flood:
                    flood[name].append((json.loads(attackers.ask("tell"))["answers"] - answers) / seconds)
                attackers.ask("off")
        told = json.loads(attackers.ask("off"))
    rates = {name: statistics.median(values) / 1e6 for name, values in spans.items()}
    shim_cpu = {name: statistics.median(values) for name, values in cpu.items()}
    return {
        **{f"mb_{name}": rate for name, rate in rates.items()},
        "ratio": rates["with"] / rates["without"],
        "ratio_loop": rates["with"] / rates["beside"],
        **{f"{who}_cpu_{name}": value for (who, name), value in ((key.split("_"), value) for key, value in shim_cpu.items())},
        **{f"shim_cpu_gb_{name}": shim_cpu[f"shim_{name}"] / max(rates[name], 1e-3) * 1e3 for name in ("without", "with")},
        **{f"flood_{name}": statistics.median(values) for name, values in flood.items()},
        **{f"connect_ms_{name}": statistics.median(values or [math.inf]) * 1e3 for name, values in took.items()},
        "connect_ms_most": max(took["with"], default=math.inf) * 1e3,
        "connect_failed": newcomers.failed,
        "peer_connections": told["connections"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file to write the JSON to as well")
    parser.add_argument("--peers", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each span")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=ALL_KINDS, default=KINDS)
    parser.add_argument("--tls", action="store_true", help="clients and peers connect to the shim with TLS")
    parser.add_argument("--addresses", type=int, default=1, help="of each kind of peer; 0: the consumer's own")
    parser.add_argument("--shim-options", type=shlex.split, default=[], help="further options of both shims, in one argument")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory) / "broker")
        broker.start()
        try:
            figures = measured(
                broker,
                Path(directory),
                given.peers,
                given.kinds,
                given.seconds,
                given.rounds,
                tls=given.tls,
                addresses=given.addresses,
                shim_options=given.shim_options,
            )
        finally:
            broker.destroy()
    lines = missed(figures)
    report = {
        "machine": machine(),
        "peers": given.peers,
        "kinds": given.kinds,
        "tls": given.tls,
        "addresses": given.addresses,
        "shim_options": given.shim_options,
        "figures": figures,
        "missed": lines,
    }
    print(json.dumps(report, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    print(*lines, sep="\n", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
