"""What a consumer through the shim keeps of its throughput while 1,000 peers misuse the shim.

    python -m tests.benchmarks.shim_hostile [--json FILE] [--peers 1000] [--seconds 3] [--rounds 3] [--tls] [--kinds slow …]

A real broker, the shim's command, the peers (tests/benchmarks/shim_attackers.py, four kinds, nice 19) and a plain consumer of
confluent_kafka are processes on one machine. The consumer reads a local topic again and again. Spans without and with peers
take turns in one run. The shim has
``max_request_rate_per_ip`` 200, and its other limits have their defaults. The peers of a kind share an address.

=============== ====================================================================================================
figure          is
=============== ====================================================================================================
``mb_without``  median MB/s of the consumer in spans without peers; ``mb_with`` with them
``ratio``       the second over the first
``shim_cpu``    CPU seconds of the shim per second, ``_without`` and ``_with`` peers; ``peers_cpu``: of the peers
=============== ====================================================================================================

Prints JSON. The exit status is 1 if the ratio is below 0.9.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from tests.benchmarks.running import cpu_seconds, machine
from tests.benchmarks.shim_attackers import KINDS
from tests.support.asked_process import AskedProcess
from tests.support.certificates import Authority
from tests.support.kafka_broker import KafkaBroker
from tests.support.killable_shim import KillableShim

__all__ = ["LEAST_RATIO", "REQUEST_RATE", "measured", "missed"]

LEAST_RATIO = 0.9
REQUEST_RATE = 200
"""``max_request_rate_per_ip``. The consumer sends fewer than 100 requests per second."""
_TOPIC = "honest"
_VALUE_BYTES = 10_000
_SETTLE_SECONDS = 5.0
_MOST_AT_ONCE = 1_000


def missed(figures: dict[str, float]) -> list[str]:
    """One line for a ratio below the target."""
    ratio = figures["ratio"]
    return [] if ratio >= LEAST_RATIO else [f"missed: ratio is {ratio:.2f}, not at least {LEAST_RATIO}"]


class _Honest:
    """Reads the topic again and again."""

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


def _filled(broker: KafkaBroker, mib: int) -> None:
    broker.create_topic(_TOPIC, tiered=False, segment_bytes=1 << 30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for _ in range((mib << 20) // _VALUE_BYTES):
        producer.produce(_TOPIC, bytes(_VALUE_BYTES), partition=0)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("the topic cannot be written")


def measured(
    broker: KafkaBroker, directory: Path, peers: int, kinds: Sequence[str], seconds: float, rounds: int, *, tls: bool
) -> dict[str, float]:
    """The figures of the module's table."""
    _filled(broker, 200)
    options = ["--max-request-rate-per-ip", str(REQUEST_RATE)]
    honest_settings: dict[str, Any] = {}
    arguments: list[str] = []
    if tls:
        authority = Authority()
        authority.issue().write(directory / "shim.pem")
        authority.write(directory / "ca.pem")
        options += ["--ssl-certificate", str(directory / "shim.pem")]
        honest_settings = {"security.protocol": "ssl", "ssl.ca.location": str(directory / "ca.pem")}
        arguments.append(str(directory / "ca.pem"))
    spans: dict[str, list[float]] = {"without": [], "with": []}
    cpu: dict[str, list[float]] = {"shim_without": [], "shim_with": [], "peers": []}
    with ExitStack() as stack:
        shim = stack.enter_context(KillableShim(broker, directory / "shim.log", *options))
        assert shim._process is not None
        port = shim.bootstrap_servers.rpartition(":")[2]
        command = [
            sys.executable,
            "-m",
            "tests.benchmarks.shim_attackers",
            port,
            _TOPIC,
            str(peers),
            ",".join(kinds),
            *arguments,
        ]
        attackers = AskedProcess(command)
        stack.callback(attackers.stop)
        honest = stack.enter_context(closing(_Honest({"bootstrap.servers": shim.bootstrap_servers, **honest_settings})))
        honest.rate(_SETTLE_SECONDS)
        told: dict[str, Any] = {}
        for _ in range(rounds):
            for name, word in (("without", "off"), ("with", "on")):
                attackers.ask(word)
                honest.rate(_SETTLE_SECONDS)
                shim_before, peers_before = cpu_seconds(process=shim._process.pid), cpu_seconds(process=attackers.pid)
                spans[name].append(honest.rate(seconds))
                cpu[f"shim_{name}"].append((cpu_seconds(process=shim._process.pid) - shim_before) / seconds)
                if name == "with":
                    cpu["peers"].append((cpu_seconds(process=attackers.pid) - peers_before) / seconds)
        told = json.loads(attackers.ask("off"))
    without, with_peers = (statistics.median(spans[name]) / 1e6 for name in ("without", "with"))
    return {
        "mb_without": without,
        "mb_with": with_peers,
        "ratio": with_peers / without,
        **{f"{name}_cpu": statistics.median(values) for name, values in cpu.items()},
        "peer_connections": told["connections"],
        "flood_answers": told["answers"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="a file to write the JSON to as well")
    parser.add_argument("--peers", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each span")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--tls", action="store_true", help="clients and peers connect to the shim with TLS")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory) / "broker")
        broker.start()
        try:
            figures = measured(broker, Path(directory), given.peers, given.kinds, given.seconds, given.rounds, tls=given.tls)
        finally:
            broker.destroy()
    lines = missed(figures)
    report = {
        "machine": machine(),
        "peers": given.peers,
        "kinds": given.kinds,
        "tls": given.tls,
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
