"""Any code that can send requests can run a generator of probes."""

from __future__ import annotations

import pytest

from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind, Probes, answered
from kafka_remote_client.protocol.fetch import PartitionData


def two_probes() -> Probes[str]:
    first = yield Probe(ProbeKind.LINEAGE, 1)
    second = yield Probe(ProbeKind.ABORTED, 2, max_bytes=1)
    if first is None:
        raise NotGrantedError("lineage")
    return f"{first.partition_index} {second}"


def test_each_probe_gets_its_answer_in_turn() -> None:
    answers = {1: PartitionData(7), 2: None}
    assert answered(two_probes(), lambda probe: answers[probe.offset]) == "7 None"


def test_a_refusal_is_raised_in_the_generator() -> None:
    with pytest.raises(NotGrantedError) as refused:
        answered(two_probes(), lambda _probe: None)
    assert refused.value.why == "lineage"
