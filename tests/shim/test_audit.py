"""Each grant is a log line with the client and the granted range, and without a secret."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest

from kafka_remote_client.remote_log.layout import LocatedSegment
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.shim.audit import AUDIT_FIELDS
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.grant_limits import GrantLimits
from kafka_remote_client.shim.grants import GrantingBroker
from tests.support.shim_fakes import FakeAsk, FakeTier, batched_fetch, client_request, tagged_fetch

LOGGER = "kafka_remote_client.shim.audit"


@pytest.mark.parametrize("partitions", [(3,), (3, 4)])
def test_grants_are_logged_and_add_up_to_the_counters(caplog: pytest.LogCaptureFixture, partitions: tuple[int, ...]) -> None:
    counters, tier = Counters(), FakeTier()
    tier.partitions = partitions
    request = tagged_fetch() if len(partitions) == 1 else batched_fetch(*partitions)
    asked = attrs.evolve(client_request(request), client="192.0.2.1:5", principal="commonName=app")
    with caplog.at_level(logging.INFO, LOGGER), ThreadPoolExecutor(2) as workers:
        broker = GrantingBroker(tier, GrantLimits(3000, 5000, 30.0), counters, workers)
        assert asyncio.run(broker.answer(asked, FakeAsk()))
    lines = [record for record in caplog.records if record.name == LOGGER]
    assert len(lines) == len(partitions) == counters["locations_granted"]
    told = [{name: getattr(line, f"audit_{name}") for name in AUDIT_FIELDS} for line in lines]
    assert sum(one["bytes"] for one in told) == counters["bytes_granted"] > 0
    assert sum(one["ranges"] for one in told) == counters["ranges_granted"]
    first = told[0]
    assert (first["principal"], first["client_id"], first["client"]) == ("commonName=app", "me", "192.0.2.1:5")
    assert (first["topic"], first["partition"], first["offset"], first["next_offset"]) == ("orders", 3, 120, 160)
    assert f"segment={json.dumps(first['segment'])}" in lines[0].getMessage()
    assert "http" not in caplog.text


class JoiningTier(FakeTier):
    """A layout with chunks that span several ranges of the window."""

    def locate(self, resolved: ResolvedSegment) -> LocatedSegment:
        return super().locate(attrs.evolve(resolved, ranges=(resolved.span,), range_offsets=resolved.range_offsets[:1]))


def test_ranges_that_a_layout_joins_are_logged_as_they_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    counters = Counters()
    with caplog.at_level(logging.INFO, LOGGER), ThreadPoolExecutor(2) as workers:
        broker = GrantingBroker(JoiningTier(), GrantLimits(3000, 5000, 30.0), counters, workers)
        assert asyncio.run(broker.answer(client_request(tagged_fetch()), FakeAsk()))
    (line,) = caplog.records
    told = getattr(line, "audit_ranges"), getattr(line, "audit_bytes")  # noqa: B009 - not attributes of all records
    assert told == (counters["ranges_granted"], counters["bytes_granted"]) == (1, 3500)


def test_nothing_is_logged_below_the_audit_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, LOGGER), ThreadPoolExecutor(2) as workers:
        broker = GrantingBroker(FakeTier(), GrantLimits(3000, 5000, 30.0), Counters(), workers)
        assert asyncio.run(broker.answer(client_request(tagged_fetch()), FakeAsk()))
    assert not caplog.records
