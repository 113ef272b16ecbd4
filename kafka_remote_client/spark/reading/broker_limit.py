"""``remote.maxBrokerBytes``: limits the bytes of a job that brokers deliver, without a coordinator. Pure.

The driver divides the limit over the splits of a job, and each task counts for itself::

    limit        |----------------------------------------|
    of splits    | not tiered, as planned |  the rest: half in proportion to what is not tiered, half to what is
    of one task  | its share: the task fails before it delivers a record beyond it

The shares add up to at most the limit. So a job that succeeds has at most that many bytes from brokers, and reaching the
limit fails the job and never loses a record. The cost is that a job may fail earlier, because a task cannot use the unused
shares of others. Each attempt at a task counts from 0, and so does each micro-batch of a stream.

Bytes are those of keys and values. Other bytes of the brokers (headers, librdkafka's read-ahead) are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import attrs

from kafka_remote_client.errors import Action, DirectFetchError
from kafka_remote_client.scanning.splits import Split

__all__ = ["OPTION", "BrokerBytesError", "with_broker_shares"]

OPTION = "remote.maxBrokerBytes"


class BrokerBytesError(DirectFetchError):
    """More bytes than ``remote.maxBrokerBytes`` permits would come through the brokers."""

    action: ClassVar[Action] = Action.STOP
    cause: ClassVar[str] = "broker-bytes"


def with_broker_shares(splits: Iterable[Split], limit: int | None) -> list[Split]:
    """The splits of one job, each with its share of ``limit``; ``None`` = no limit.

    Raises BrokerBytesError if more bytes than that are not tiered, or cannot be read from the tier.
    """
    found = list(splits)
    if limit is None:
        return [attrs.evolve(split, max_broker_bytes=None) for split in found]
    local = [split.local_bytes for split in found]
    tiered = [split.size_in_bytes - size for split, size in zip(found, local, strict=True)]
    planned = sum(local)
    if planned > limit:
        failure = next((split.tier_failure for split in found if split.tier_failure is not None), None)
        why = "are not tiered" if failure is None else f"cannot be read from the tier ({failure})"
        raise BrokerBytesError(f"about {planned} bytes of this job {why}, more than {OPTION}={limit}")
    spare = limit - planned
    of_local = spare // 2 if planned and sum(tiered) else spare if planned else 0
    more_local = _divided(of_local, local)
    more_tiered = _divided(spare - of_local, tiered)
    return [
        attrs.evolve(split, max_broker_bytes=sum(shares))
        for split, *shares in zip(found, local, more_local, more_tiered, strict=True)
    ]


def _divided(amount: int, weights: list[int]) -> list[int]:
    """``amount`` in proportion to the weights, rounded down; equal shares where all of them are 0."""
    total = sum(weights)
    return [amount * weight // total if total else amount // len(weights) for weight in weights]
