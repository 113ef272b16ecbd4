"""Puts a latency in front of a running shim's object origin, and tells what that has answered."""

from __future__ import annotations

from kafka_remote_client.shim.origin import ObjectOrigin
from kafka_remote_client.shim.server import Shim

__all__ = ["origin_counts", "set_origin_latency"]


def set_origin_latency(shim: Shim, seconds: float) -> None:
    """Each answer of the shim's origin waits ``seconds`` from now on."""
    _origin(shim).faults.delay = seconds


def origin_counts(shim: Shim) -> dict[str, int]:
    """How many requests it answered, and how many bytes of objects it sent."""
    seen = _origin(shim).statistics()
    return {"requests": seen.requests, "bytes_sent": seen.bytes_sent}


def _origin(shim: Shim) -> ObjectOrigin:
    tier = shim._tier
    assert tier is not None
    origin: ObjectOrigin = tier._origin
    return origin
