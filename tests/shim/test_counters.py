"""Counters can be increased from any thread."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from kafka_remote_client.shim.counters import Counters


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
    assert list(snapshot.items()) == [("a", 1), ("b", 2)]
    assert counters["never"] == 0


def test_the_page_about_the_shim_lists_every_counter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "shim.md").read_text()
    named = re.findall(r"^ *``([a-z_.<>]+)``", Counters.__doc__ or "", re.MULTILINE)
    assert len(named) > 10
    assert not [name for name in named if f"`{name}`" not in page]
