"""Which ratio of a consumer beside hostile peers misses the target."""

from __future__ import annotations

from tests.benchmarks.shim_attackers import ALL_KINDS, KINDS, fetch_request
from tests.benchmarks.shim_hostile import LEAST_RATIO, missed


def test_a_ratio_below_the_target_is_missed() -> None:
    assert missed({"ratio": LEAST_RATIO}) == []
    assert missed({"ratio": 0.89}) == ["missed: ratio is 0.89, not at least 0.9"]


def test_peers_have_six_kinds_and_a_request() -> None:
    assert len(set(KINDS)) == 6
    assert set(ALL_KINDS) - set(KINDS) == {"metadata"}, "floods with what only an admitted client may send"
    assert b"orders" in fetch_request("orders", 1)
