"""Puts a latency in front of a running shim's object origin."""

from __future__ import annotations

from kafka_remote_client.shim.server import Shim

__all__ = ["set_origin_latency"]


def set_origin_latency(shim: Shim, seconds: float) -> None:
    """Each answer of the shim's origin waits ``seconds`` from now on."""
    tier = shim._tier
    assert tier is not None
    tier._origin.faults.delay = seconds
