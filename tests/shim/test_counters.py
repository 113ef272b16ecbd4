"""Counters can be increased from any thread."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from kafka_remote_client.shim.counters import Counters

NAMES = re.findall(r"^ *``([a-z_.<>]+)``", Counters.__doc__ or "", re.MULTILINE)
"""As the class describes them."""


def test_counts_from_several_threads() -> None:
    counters = Counters()
    threads = [threading.Thread(target=lambda: [counters.add("n") for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters["n"] == 4000


def test_a_snapshot_is_sorted_and_a_copy() -> None:
    counters = Counters()
    counters.add("b", 2)
    counters.add("a")
    snapshot = counters.snapshot()
    counters.add("a")
    assert list(snapshot) == sorted(snapshot)
    assert (snapshot["a"], snapshot["b"]) == (1, 2)
    assert counters["never"] == 0


def test_a_counter_without_reasons_is_0_from_the_start() -> None:
    of_the_tier = {"metadata_restarts", "metadata_rereads"}
    assert Counters().snapshot() == dict.fromkeys({name for name in NAMES if "<" not in name} - of_the_tier, 0)


def test_the_page_about_the_shim_lists_every_counter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "shim.md").read_text()
    assert len(NAMES) > 10
    assert not [name for name in NAMES if f"`{name}`" not in page]
