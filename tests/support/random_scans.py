"""Scans with random predicates, bounds, columns and limits, compared with a filter over a full read.

::

    python -m tests.support.random_scans --count 10000 --seed 7

    golden topics   what Kafka's own consumer got of them    -+
    written tier    the records that were written to it      -+->  filter in Python  ->  expected  ==  what the scan returns

The judge is ``Condition.of`` (``tests.support.scanned``) over these rows. It shares no code with the product: neither the
decoder, nor the plan, nor the filter. Hypothesis draws the scans and makes a scan that fails small.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cache
from itertools import takewhile
from typing import Any, TypeAlias

import attrs
import hypothesis
import pyarrow as pa
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.records.block import RECORD_COLUMNS
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.scan import Scan
from tests.support.batches import CODECS, Rec, batch
from tests.support.golden import golden_local
from tests.support.ledger import ledger
from tests.support.scanned import Condition, Row, conditions, rows_in_order, tiered_rows
from tests.support.tier import LAYOUT, TIP, Tier, time_entries

__all__ = ["Drawn", "Figures", "KnownTier", "check", "known_tiers", "main", "run"]

Place: TypeAlias = tuple[str, int]
LEVELS = ("read_committed", "read_uncommitted")
SCANNED = (
    "kafka_remote_client/fetch",
    "kafka_remote_client/location",
    "kafka_remote_client/records",
    "kafka_remote_client/scanning/*.py",
)
"""The product code that the comparison is about."""
_GOLDEN = (("epochs",), ("txn",), ("logappend",), ("epochs", "txn"))
_GOLDEN_PLACES = (("epochs", 0), ("epochs", 1), ("txn", 0), ("logappend", 0))
_GOLDEN_KEYS = (b"key-474", b"key-798", b"key-896", b"")
_KEYS = (b"a", b"b", b"")
_LOG_APPEND_TIME = 0x08
_SEGMENTS, _BATCHES = 4, 12


@attrs.frozen(eq=False)
class KnownTier:
    """A tier whose records are known. ``topics``: the groups of topics that a scan may read. ``rows``: by isolation level."""

    reader: TierReader = attrs.field(repr=False)
    topics: Sequence[tuple[str, ...]]
    keys: tuple[bytes, ...]
    rows: Mapping[str, Mapping[Place, Sequence[Row]]] = attrs.field(repr=False)

    def of(self, topics: Sequence[str], isolation: str) -> dict[Place, Sequence[Row]]:
        """The rows of topics in the order of places."""
        return {place: rows for place, rows in sorted(self.rows[isolation].items()) if place[0] in topics}


@attrs.frozen
class Drawn:
    """A scan and what it must return: ``expected`` are the matching records of each partition, in the scan's columns."""

    tier: KnownTier = attrs.field(repr=False)
    scan: dict[str, Any]
    condition: Condition | None
    counts: bool
    expected: dict[Place, list[Row]] = attrs.field(repr=False)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis shows a scan that fails by this; it would print all fields otherwise."""
        printer.text(repr(self))


@attrs.define
class Figures:
    """``matching``: scans that at least one record matches and at least one does not."""

    scans: int = 0
    matching: int = 0
    records: int = 0


@contextmanager
def known_tiers() -> Iterator[tuple[KnownTier, ...]]:
    """The golden tier, and one that is written here: null keys, gaps in offsets, times that fall, all codecs."""
    with ExitStack() as opened:
        golden = opened.enter_context(open_tier((golden_local() / "remote").as_uri()))
        tier, rows = _written()
        written = opened.enter_context(TierReader(tier.store, ListingLocationSource(tier.store, LAYOUT)))
        place = TIP.topic, TIP.partition
        yield (
            KnownTier(
                golden,
                _GOLDEN,
                _GOLDEN_KEYS,
                {level: {place: tiered_rows(*place, level) for place in _GOLDEN_PLACES} for level in LEVELS},
            ),
            KnownTier(written, [(TIP.topic,)], _KEYS, {level: {place: rows} for level in LEVELS}),
        )


def _written() -> tuple[Tier, list[Row]]:
    drawn, tier, rows, offset = random.Random(17), Tier(), list[Row](), 0
    for number in range(1, _SEGMENTS + 1):
        start, latest, batches, entries = offset, -1, [], []
        for codec in (drawn.choice(list(CODECS.values())) for _ in range(_BATCHES)):
            deltas = sorted({0, *drawn.sample(range(12), drawn.randint(0, 7))})
            base_time = 1000 + 3 * offset
            records = [_drawn_record(drawn, delta) for delta in deltas]
            youngest = base_time + max(record.timestamp for record in records)
            appended = drawn.random() < 0.1
            attributes = _LOG_APPEND_TIME if appended else 0
            batches.append(
                batch(offset, records, codec=codec, attributes=attributes, timestamp=base_time, max_timestamp=youngest)
            )
            rows += [
                _row(record, offset, youngest if appended else base_time + record.timestamp, appended) for record in records
            ]
            offset += deltas[-1] + 1
            if youngest > latest:
                latest = youngest
                entries.append((latest, offset - 1 - start))
        segment = tier.add(batches, number=number, indexed=range(0, _BATCHES, 3), max_timestamp_ms=latest)
        tier.put(segment, ObjectKind.TIME_INDEX, time_entries(*entries))
    return tier, rows


def _drawn_record(drawn: random.Random, delta: int) -> Rec:
    headers = [(name, drawn.choice([b"v", b"1", b"", None])) for name in (b"a", b"dup", b"dup") if drawn.random() < 0.3]
    value = drawn.choice([None, b"", b"value-%d" % delta * 9])
    return Rec(delta, drawn.choice([None, *_KEYS]), value, headers, drawn.randint(-40, 40))


def _row(record: Rec, base: int, timestamp: int, appended: bool) -> Row:
    return {
        "key": record.key,
        "value": record.value,
        "topic": TIP.topic,
        "partition": TIP.partition,
        "offset": base + record.offset,
        "timestamp": timestamp,
        "timestampType": int(appended),
        "headers": [(name.decode(), value) for name, value in record.headers],
    }


@st.composite
def _scans(draw: st.DrawFn, tiers: Sequence[KnownTier]) -> Drawn:
    tier = draw(st.sampled_from(tiers))
    topics, isolation = draw(st.sampled_from(tier.topics)), draw(st.sampled_from(LEVELS))
    rows, offsets, span, predicates = _bounds_of(tier, topics, isolation)
    scan: dict[str, Any] = {"topics": topics, "isolation_level": isolation}

    def some(name: str, values: st.SearchStrategy[Any]) -> Any:
        """Half of the scans have the argument."""
        if draw(st.booleans()):
            scan[name] = draw(values)
        return scan.get(name)

    condition: Condition | None = draw(predicates)
    if condition is not None:
        scan["predicate"] = condition.predicate
    first, stop = some("start_offset", st.integers(*offsets)), None
    if draw(st.booleans()):
        scan["end_offset"] = stop = draw(st.integers(first or 0, offsets[1]))
    since = some("since", st.integers(*span))
    until = some("until", st.integers(max(0, since or span[0]), span[1]))
    lag = _lag(tier, topics)
    some("out_of_order", st.integers(lag, lag + 50).map(lambda most: timedelta(milliseconds=most)))
    numbers = some("partitions", st.sets(st.sampled_from(sorted({place[1] for place in rows})), min_size=1))
    columns = some("columns", st.lists(st.sampled_from(RECORD_COLUMNS), min_size=1, unique=True)) or RECORD_COLUMNS
    some("limit", st.sampled_from([0, 1, 3, 20, 500, 10_000]))
    some("split_bytes", st.sampled_from([1_000, 30_000, 200_000]))

    def matches(row: Row) -> bool:
        return (
            (first is None or row["offset"] >= first)
            and (stop is None or row["offset"] < stop)
            and (since is None or row["timestamp"] >= since)
            and (until is None or row["timestamp"] < until)
            and (condition is None or condition.of(row) is True)
        )

    expected = {
        place: [{name: row[name] for name in columns} for row in part if matches(row)]
        for place, part in rows.items()
        if numbers is None or place[1] in numbers
    }
    return Drawn(tier, scan, condition, draw(st.integers(0, 3)) == 0, expected)


@cache
def _bounds_of(
    tier: KnownTier, topics: tuple[str, ...], isolation: str
) -> tuple[dict[Place, Sequence[Row]], tuple[int, int], tuple[int, int], st.SearchStrategy[Condition | None]]:
    """The rows of topics, the bounds of their offsets and times, and predicates over these; made once, because that is slow."""
    rows = tier.of(topics, isolation)
    every = [row for part in rows.values() for row in part]
    times = [row["timestamp"] for row in every]
    offsets, span = (0, max(row["offset"] for row in every) + 1), (min(times) - 1, max(times) + 1)
    return rows, offsets, span, st.none() | conditions(offsets, span, tier.keys)


@cache
def _lag(tier: KnownTier, topics: tuple[str, ...]) -> int:
    """The most by which a timestamp is below an earlier one of its partition, in milliseconds. Aborted records count."""
    most = 0
    for part in tier.of(topics, LEVELS[1]).values():
        latest = 0
        for row in part:
            latest = max(latest, row["timestamp"])
            most = max(most, latest - row["timestamp"])
    return most


def check(drawn: Drawn) -> int:
    """Reads the scan; returns the number of its records. Raises AssertionError if they are not the expected ones.

    With a limit, each partition gives its first matching records, and there are as many as the limit allows.
    """
    found = OpenScan(Scan(**drawn.scan), drawn.tier.reader, threads=2)
    records = pa.Table.from_batches(found.stream(), found.schema)
    limit = drawn.scan.get("limit")
    wanted = sum(map(len, drawn.expected.values()))
    number = wanted if limit is None else min(limit, wanted)
    assert len(records) == number, f"{len(records)} records, {number} expected"
    if drawn.counts:
        assert found.count() == number
    rows = rows_in_order(records)
    if {"topic", "partition"} <= set(records.column_names) or len(drawn.expected) == 1:
        for place, part in drawn.expected.items():
            here = [row for row in rows if len(drawn.expected) == 1 or (row["topic"], row["partition"]) == place]
            # Without pytest's own words: a list of all rows is of no help.
            if here != (part if limit is None else part[: len(here)]):
                raise AssertionError(_difference(place, here, part))
    else:
        left = Counter(repr(row) for row in rows)
        left.subtract(repr(row) for part in drawn.expected.values() for row in part)
        assert max(left.values(), default=0) <= 0, "a record that is not expected"
    return number


def _difference(place: Place, found: Sequence[Row], wanted: Sequence[Row]) -> str:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(found, wanted, strict=False)))
    here, there = found[same : same + 1], wanted[same : same + 1]
    return f"{place}: record {same} of {len(found)} is {here}, record {same} of {len(wanted)} expected is {there}"


def run(tiers: Sequence[KnownTier], *, count: int, number: int, shrinks: bool = False) -> Figures:
    """Draws and checks ``count`` scans by the seed ``number``. Raises what a scan raised, with the scan in its notes."""
    figures = Figures()

    @hypothesis.seed(number)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        derandomize=False,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
    )
    @hypothesis.given(_scans(tiers))
    def judged(drawn: Drawn) -> None:
        records = check(drawn)
        figures.scans += 1
        figures.records += records
        known = sum(len(rows) for rows in drawn.tier.of(drawn.scan["topics"], drawn.scan["isolation_level"]).values())
        figures.matching += 0 < records < known

    judged()
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Exit status 1 where a scan differs."""
    parser = argparse.ArgumentParser(
        prog="make scan-predicates", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, help="a new one by default")
    asked = parser.parse_args(arguments)
    number = secrets.randbelow(1 << 32) if asked.seed is None else asked.seed
    clock, figures, differences = SystemClock(), Figures(), 0
    started = clock.monotonic()
    with known_tiers() as tiers:
        try:
            figures = run(tiers, count=asked.count, number=number, shrinks=True)
        except Exception as error:
            differences = 1
            print("\n".join([str(error), *getattr(error, "__notes__", ())]), file=sys.stderr)
    seconds = round(clock.monotonic() - started)
    ledger("scan-predicates", describes=SCANNED, seed=number, seconds=seconds, **attrs.asdict(figures), differences=differences)
    return differences


if __name__ == "__main__":
    sys.exit(main())
