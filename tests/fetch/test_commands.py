from __future__ import annotations

from typing import cast

from kafka_remote_client.fetch.commands import BatchUnderWay, LocationBatch, reads_of
from kafka_remote_client.fetch.partition_read import Fetch
from tests.support.stepping import stepping


def test_a_batch_has_several_reads_and_a_range_has_one() -> None:
    with stepping() as made:
        reads = [made.opened(), made.opened()]
        batch = made.scheduler.next_command(0.0)
        assert isinstance(batch, LocationBatch)
        assert reads_of(batch) == reads
        made.locate(batch.locates[0])
        fetch = cast("Fetch", made.next())
        assert reads_of(fetch) == reads[:1]


def test_no_location_of_a_new_batch_is_pending() -> None:
    assert BatchUnderWay(set(), count=2).pending == 0
