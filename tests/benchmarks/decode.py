"""How fast records are decoded, against aiokafka's compiled decoder and kafka-python, side by side in one run.

    python tests/benchmarks/decode.py [--json] [--mib 16] [--rounds 5] [--only none,lz4,transactions]

Each cell is the best of the rounds; within a round all readers take turns over the same segment, on one core.

* ``columns`` and ``arrow`` read the whole segment in one call; ``message`` makes ``confluent_kafka.Message`` in lists of 500,
  as the consumer does; the rivals iterate over all records and verify the checksum of each batch.
* ``codec`` is cramjam alone over the same batches, ``memcpy`` a copy of the same bytes to fresh memory, ``copy of values`` one
  of as many bytes as there are values, to memory that is there.
* ``binding`` = (codec alone + uncompressed decode) / columns: 1 means that nothing is lost around the codec.
* ``arrow ceiling`` = columns / (columns + copy of values): what ``arrow over columns`` can be at most, because Arrow has values
  side by side and segments have not.
* ``threads`` = what two threads get together, over one, for columns; beside it the same for SHA-256 of memory (``control``),
  because the other core of a shared machine may not be there.
* ``transactions``: small transactions without compression, each ended by a marker, read as ``read_committed``, and the same
  batches without markers (``plain``); ``over plain`` is the share of its speed that is left. ``aborted``: one of four is
  aborted, so that the filter looks at every batch. ``aiokafka`` reads the same bytes and does not filter.
* ``MiB``: by how much a process of its own grows at most when it reads the segment once and keeps the result (Linux only).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import cramjam
import crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records import read_batches
from kafka_remote_client.records._select import KERNEL

KAFKA_PYTHON_SHARE = 8  # it reads about that part of a segment only, and its time is multiplied
CODECS = {"none": 0, "lz4": 3, "snappy": 2, "zstd": 4, "gzip": 1}
DECOMPRESS: dict[int, Callable[..., int]] = {
    1: cramjam.gzip.decompress_into,
    2: cramjam.snappy.decompress_raw_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}


def build(record_bytes: int, batch_bytes: int, codec: int, total: int) -> tuple[bytes, int]:
    """A segment of at least ``total`` bytes of values that compress about as JSON does; returns it and its record count."""
    noise = random.Random(1)
    words = [noise.randbytes(6).hex().encode() for _ in range(500)]
    text = b" ".join(noise.choice(words) for _ in range(200_000))
    segment, offset = bytearray(), 0
    while offset * record_bytes < total:
        builder = DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=batch_bytes,
        )
        count = 0
        while True:
            at = (offset + count) * record_bytes % (len(text) - record_bytes)
            value = text[at : at + record_bytes]
            if builder.append(count, timestamp=1_700_000_000_000 + count // 50, key=None, value=value, headers=[]) is None:
                break
            count += 1
        batch = bytearray(builder.build())
        batch[0:8] = offset.to_bytes(8, "big")
        segment += batch
        offset += count
    return bytes(segment), offset


def payloads(segment: bytes, record_bytes: int) -> list[tuple[memoryview, bytearray]]:
    """The compressed payload of each batch and its decompressed size; snappy has blocks of 32 KiB."""
    found, at, view = [], 0, memoryview(segment)
    while at < len(segment):
        end = at + 12 + int.from_bytes(segment[at + 8 : at + 12], "big")
        count = int.from_bytes(segment[at + 57 : at + 61], "big")
        source = view[at + 61 : end]
        if source[:8] == b"\x82SNAPPY\x00":
            found += [(block, bytearray(33_000)) for block in framed(source)]
        else:
            found.append((source, bytearray(count * (record_bytes + 30))))
        at = end
    return found


def framed(source: memoryview) -> Iterator[memoryview]:
    """The blocks of xerial's framing."""
    at = 16
    while at < len(source):
        size = int.from_bytes(source[at : at + 4], "big")
        yield source[at + 4 : at + 4 + size]
        at += 4 + size


def rival(records: Callable[[bytes], Any], segment: bytes) -> int:
    count = 0
    reader = records(segment)
    while reader.has_next():
        batch = reader.next_batch()
        if not batch.validate_crc():
            raise ValueError("checksum")
        for _ in batch:
            count += 1
    return count


def front(segment: bytes) -> bytes:
    """Whole batches of about a share of a segment, which is enough of kafka-python."""
    at = 0
    while at < len(segment) // KAFKA_PYTHON_SHARE:
        at += 12 + int.from_bytes(segment[at + 8 : at + 12], "big")
    return segment[:at]


def messages(segment: bytes) -> int:
    block = read_batches(segment)
    return sum(len(block.messages("topic", 0, at, at + 500)) for at in range(0, len(block), 500))


def only_messages(segment: bytes) -> Callable[[], int]:
    block = read_batches(segment)
    return lambda: sum(len(block.messages("topic", 0, at, at + 500)) for at in range(0, len(block), 500))


def raw_codec(parts: list[tuple[memoryview, bytearray]], function: Callable[..., int]) -> Callable[[], int]:
    def run() -> int:
        for source, target in parts:
            function(source, target)
        return 0

    return run


def in_turns(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Best seconds of each job, the jobs taking turns."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def two_threads(job: Callable[[], object], seconds: float, rounds: int) -> float:
    """The speed-up of two threads over one; each thread has its own core where the system supports that.

    ``seconds`` is what the job takes once; a share is at least a quarter of a second.
    """
    times = max(2, int(0.25 / seconds))
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []

    def share(number: int) -> None:
        if len(cores) > 1:
            os.sched_setaffinity(0, {cores[number]})
        for _ in range(times):
            job()

    def run(count: int) -> None:
        threads = [threading.Thread(target=share, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    best = in_turns({"one": lambda: run(1), "two": lambda: run(2)}, rounds)
    return 2 * best["one"] / best["two"]


def control(rounds: int) -> float:
    """The same for a checksum that surely runs without the interpreter's lock: what this machine can give at the moment."""
    data = bytes(1 << 20)

    def job() -> bytes:
        return hashlib.sha256(data).digest()

    return two_threads(job, in_turns({"job": job}, rounds)["job"], rounds)


def peak(name: str) -> None:
    """In a process of its own: prints by how many KiB it grows at most while it reads the segment from its input."""
    segment = sys.stdin.buffer.read()
    read_batches(b"").to_arrow("topic", 0)  # load all modules first
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew
    before = resident("VmRSS:")
    result = PEAKS[name](segment)
    print(resident("VmHWM:") - before)
    del result


def resident(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.split("\n") if line.startswith(field)).split()[1])


def peak_mib(name: str, segment: bytes) -> float | None:
    if not Path("/proc/self/clear_refs").exists():
        return None
    done = subprocess.run([sys.executable, __file__, "--peak", name], input=segment, stdout=subprocess.PIPE, check=True)
    return round(int(done.stdout) / 1024, 1)


def copy_of(size: int) -> Callable[[], None]:
    source, target = bytes(size), memoryview(bytearray(size))

    def run() -> None:
        target[:] = source

    return run


def jobs_for(segment: bytes, codec: int, record_bytes: int, count: int) -> dict[str, Callable[[], object]]:
    jobs: dict[str, Callable[[], object]] = {
        "columns": lambda: read_batches(segment),
        "arrow": lambda: read_batches(segment).to_arrow("topic", 0),
        "message": only_messages(segment),
        "columns + message": lambda: messages(segment),
        "aiokafka": lambda: rival(AiokafkaRecords, segment),
        "kafka-python": lambda: rival(KafkaPythonRecords, front(segment)),
        "memcpy": lambda: bytearray(segment),
        "copy of values": copy_of(count * record_bytes),
    }
    if codec:
        jobs["codec"] = raw_codec(payloads(segment, record_bytes), DECOMPRESS[codec])
    return jobs


def cells(codecs: list[str], total: int, rounds: int) -> Iterator[dict[str, Any]]:
    plain: dict[tuple[int, int], float] = {}
    for codec, record_bytes, batch_bytes in product(codecs, (100, 1000), (16 * 1024, 1024 * 1024)):
        segment, count = build(record_bytes, batch_bytes, CODECS[codec], total)
        best = in_turns(jobs_for(segment, CODECS[codec], record_bytes, count), rounds)
        best["kafka-python"] *= count / rival(KafkaPythonRecords, front(segment))
        cell = {
            "codec": codec,
            "record bytes": record_bytes,
            "batch bytes": batch_bytes,
            "records": count,
            "segment bytes": len(segment),
            "M records/s": {name: round(count / seconds / 1e6, 3) for name, seconds in best.items()},
            "GB/s of values": {name: round(count * record_bytes / seconds / 1e9, 2) for name, seconds in best.items()},
            "columns over aiokafka": round(best["aiokafka"] / best["columns"], 2),
            "columns over kafka-python": round(best["kafka-python"] / best["columns"], 1),
            "arrow over columns": round(best["columns"] / best["arrow"], 2),
            "arrow ceiling": round(best["columns"] / (best["columns"] + best["copy of values"]), 2),
            "columns over memcpy": round(best["memcpy"] / best["columns"], 2),
            "threads": round(two_threads(lambda segment=segment: read_batches(segment), best["columns"], rounds), 2),
            "threads, control": round(control(rounds), 2),
            "peak MiB": {name: peak_mib(name, segment) for name in PEAKS},
        }
        if codec == "none":
            plain[record_bytes, batch_bytes] = best["columns"]
        elif (record_bytes, batch_bytes) in plain:
            bound = best["codec"] + plain[record_bytes, batch_bytes]
            cell["binding"] = round(bound / best["columns"], 2)
        yield cell


def marker(offset: int, producer: int, kind: int) -> bytes:
    """A control batch: ``kind`` 0 aborts, 1 commits."""
    record = b"\0\0\0\x08" + kind.to_bytes(4, "big") + b"\x0c\0\0\0\0\0\0\0"
    return v2_batch(offset, 1, producer, 0x30, bytes([2 * len(record)]) + record)


def v2_batch(offset: int, count: int, producer: int, attributes: int, records: bytes) -> bytes:
    tail = (
        struct.pack(">hiqqqhii", attributes, count - 1, 1_700_000_000_000, 1_700_000_000_000, producer, 0, 0, count) + records
    )
    return struct.pack(">qiibI", offset, 9 + len(tail), 0, 2, crc32c.crc32c(tail)) + tail


def transactions(per_transaction: int, total: int) -> tuple[bytes, bytes, int, list[AbortedTransaction]]:
    """Batches with a marker after each, the same without, their records, and those that are aborted: one of four."""
    value = b"v" * 100
    marked, plain, aborted = bytearray(), bytearray(), []
    offset = at = 0
    for number in range(total // (per_transaction * 100)):
        records = b"".join(
            varint(107) + b"\0\0" + varint(n)[:1] + b"\1" + varint(100) + value + b"\0" for n in range(per_transaction)
        )
        producer = number % 50
        marked += v2_batch(offset, per_transaction, producer, 0x10, records)
        plain += v2_batch(at, per_transaction, producer, 0x10, records)
        marked += marker(offset + per_transaction, producer, 0 if number % 4 == 3 else 1)
        if number % 4 == 3:
            aborted.append(AbortedTransaction(producer, offset))
        offset += per_transaction + 1
        at += per_transaction
    return bytes(marked), bytes(plain), at, aborted


def varint(value: int) -> bytes:
    raw, out = value << 1, bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes([*out, raw])


def transaction_cells(total: int, rounds: int) -> Iterator[dict[str, Any]]:
    committed = IsolationLevel.READ_COMMITTED
    for per_transaction in (1, 10, 50):
        marked, plain, count, aborted = transactions(per_transaction, total)
        jobs: dict[str, Callable[[], object]] = {
            "plain": lambda plain=plain: read_batches(plain, isolation_level=committed),
            "committed": lambda marked=marked: read_batches(marked, isolation_level=committed),
            "aborted": lambda marked=marked, aborted=aborted: read_batches(
                marked, isolation_level=committed, aborted_transactions=aborted
            ),
            "read_uncommitted": lambda marked=marked: read_batches(marked),
            "aiokafka": lambda marked=marked: rival(AiokafkaRecords, marked),
        }
        best = in_turns(jobs, rounds)
        yield {
            "codec": "none",
            "records per transaction": per_transaction,
            "records": count,
            "M records/s": {name: round(count / seconds / 1e6, 3) for name, seconds in best.items()},
            "over plain": {name: round(best["plain"] / best[name], 2) for name in ("committed", "aborted", "read_uncommitted")},
            "columns over aiokafka": round(best["aiokafka"] / best["committed"], 2),
        }


COLUMNS = ("columns", "arrow", "message", "aiokafka", "kafka-python")
BYTES = ("columns", "memcpy", "codec")
PEAKS: dict[str, Callable[[bytes], object]] = {
    "columns": read_batches,
    "arrow": lambda segment: read_batches(segment).to_arrow("topic", 0),
    "aiokafka": lambda segment: rival(AiokafkaRecords, segment),
}
RATIOS = (
    "columns over aiokafka",
    "arrow over columns",
    "arrow ceiling",
    "columns over memcpy",
    "binding",
    "threads",
    "threads, control",
)


def heading() -> str:
    rates = "".join(f"  {name}" for name in COLUMNS)
    speeds = "".join(f"  {name} GB/s" for name in BYTES)
    peaks = "".join(f"  {name} MiB" for name in PEAKS)
    return " " * 24 + rates + "  " + speeds + "  " + "".join(f"  {name}" for name in RATIOS) + "  " + peaks


def line(cell: dict[str, Any]) -> str:
    rates = "".join(f"{cell['M records/s'][name]:{len(name) + 2}.2f}" for name in COLUMNS)
    speeds = "".join(f"{cell['GB/s of values'].get(name, '-'):>{len(name) + 7}}" for name in BYTES)
    ratios = "".join(f"{cell.get(name, '-'):>{len(name) + 2}}" for name in RATIOS)
    peaks = "".join(
        f"{cell['peak MiB'][name] if cell['peak MiB'][name] is not None else '-':>{len(name) + 6}}" for name in PEAKS
    )
    return f"{cell['codec']:8}{cell['record bytes']:6}{cell['batch bytes']:9} |{rates} |{speeds} |{ratios} |{peaks}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mib", type=int, default=16, help="values in each segment")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join([*CODECS, "transactions"]), help="parts, comma separated")
    parser.add_argument("--peak", choices=PEAKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak)
        return
    about = {"kernel": KERNEL, "python": platform.python_version(), "machine": platform.machine()}
    results = []
    if not options.json:
        print(about, "M records/s, GB/s of values, ratios, peak")
        print(heading())
    parts = options.only.split(",")
    for cell in cells([part for part in parts if part in CODECS], options.mib << 20, options.rounds):
        results.append(cell)
        if not options.json:
            print(line(cell), flush=True)
    for cell in transaction_cells(options.mib << 20, options.rounds) if "transactions" in parts else ():
        results.append(cell)
        if not options.json:
            print(json.dumps(cell), flush=True)
    if options.json:
        print(json.dumps({**about, "cells": results}, indent=1))


if __name__ == "__main__":
    main()
