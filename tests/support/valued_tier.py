"""A tier in a directory whose records have the keys and values that a test chose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.batches import Rec, batch
from tests.support.tier import TIP, Tier

__all__ = ["TOPIC", "write_records"]

TOPIC = TIP.topic
_BATCH = 10
_BATCHES_IN_A_SEGMENT = 3


def write_records(directory: Path, records: Sequence[tuple[bytes | None, bytes | None]], *, first_timestamp: int = 1000) -> str:
    """Writes one partition of TOPIC from offset 0 on, in segments of 30 records. Returns the tier's URL."""
    tier = Tier()
    batches = []
    for base in range(0, len(records), _BATCH):
        some = [Rec(n, key, value, timestamp=n) for n, (key, value) in enumerate(records[base : base + _BATCH])]
        batches.append(batch(base, some, timestamp=first_timestamp + base))
    for number, first in enumerate(range(0, len(batches), _BATCHES_IN_A_SEGMENT), 1):
        tier.add(batches[first : first + _BATCHES_IN_A_SEGMENT], number=number)
    for key, data in tier.store.objects.items():
        file = directory / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return directory.as_uri()
