from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.spark.options.source_options import SourceOptions, parse_options
from kafka_remote_client.spark.reading.task_engine import KEPT, MAX_AGE_SECONDS, TaskEngines, engine_for
from tests.support.locations import ManualClock


def options(**more: str) -> SourceOptions:
    return parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", **more})


class FakeEngine:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Making:
    """Keeps what it made; ``engines`` lends them."""

    def __init__(self) -> None:
        self.made: list[FakeEngine] = []
        self.clock = ManualClock()
        self.engines = TaskEngines(self._make, clock=self.clock)

    def _make(self, _options: SourceOptions, _clock: object) -> Any:
        self.made.append(FakeEngine())
        return self.made[-1]


@pytest.fixture
def making() -> Making:
    return Making()


def test_tasks_with_equal_options_share_an_engine_one_after_the_other(making: Making) -> None:
    with making.engines.lend(options()) as first:
        pass
    with making.engines.lend(options(subscribe="other", minPartitions="9")) as second:
        assert second is first
    assert [made.closed for made in making.made] == [0]


def test_an_engine_is_shared_side_by_side_too(making: Making) -> None:
    with making.engines.lend(options()) as first, making.engines.lend(options()) as second:
        assert first is second
        making.engines.close()
        assert making.made[0].closed == 0
    assert making.made[0].closed == 1


@pytest.mark.parametrize(
    "other", [{"kafka.bootstrap.servers": "c:1"}, {"fetch.remote.max.in.flight": "3"}, {"remote.storage.fetcher.region": "x"}]
)
def test_other_options_get_another_engine(making: Making, other: dict[str, str]) -> None:
    with making.engines.lend(options()) as first, making.engines.lend(options(**other)) as second:
        assert first is not second


def test_the_last_idle_ones_are_kept(making: Making) -> None:
    for number in range(KEPT + 2):
        with making.engines.lend(options(**{"kafka.bootstrap.servers": f"b:{number}"})):
            pass
    with making.engines.lend(options(**{"kafka.bootstrap.servers": f"b:{KEPT}"})):
        pass
    assert len(making.made) == KEPT + 2
    assert [made.closed for made in making.made] == [1, 1] + [0] * KEPT


def test_an_old_engine_is_closed_when_it_is_not_lent(making: Making) -> None:
    with making.engines.lend(options()) as first:
        making.clock.now += MAX_AGE_SECONDS + 1
        with making.engines.lend(options()) as second:
            assert second is not first
        assert making.made[0].closed == 0
    assert [made.closed for made in making.made] == [1, 0]
    making.clock.now += MAX_AGE_SECONDS + 1
    with making.engines.lend(options()):
        assert [made.closed for made in making.made] == [1, 1, 0]


def test_an_engine_under_which_a_task_failed_is_not_used_again(making: Making) -> None:
    with pytest.raises(ValueError, match="broken"), making.engines.lend(options()):
        raise ValueError("broken")
    assert making.made[0].closed == 1
    with making.engines.lend(options()):
        assert [made.closed for made in making.made] == [1, 0]


def test_where_there_is_no_direct_fetch_nothing_is_kept() -> None:
    engines = TaskEngines(lambda _options, _clock: None)
    with engines.lend(options()) as engine:
        assert engine is None
    assert repr(engines) == "TaskEngines(0 kept)"


def test_closing_leaves_room_for_more(making: Making) -> None:
    with making.engines.lend(options()):
        pass
    making.engines.close()
    with making.engines.lend(options()):
        pass
    assert [made.closed for made in making.made] == [1, 0]


def test_after_a_fork_the_parents_engines_stay_open(making: Making) -> None:
    with making.engines.lend(options()):
        making.engines.forget()
    with making.engines.lend(options()):
        pass
    assert [made.closed for made in making.made] == [0, 0]


def test_no_secret_is_in_a_repr(making: Making) -> None:
    secret = {
        "kafka.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="geheim";',
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "remote.storage.fetcher.secret": "geheim",
    }
    with making.engines.lend(options(**secret)):
        assert "geheim" not in repr(making.engines) + repr(making.engines._kept)


def test_each_call_makes_a_new_engine() -> None:
    given = options(**{"remote.storage.fetcher.class": "memory"})
    first, second = engine_for(given, ManualClock()), engine_for(given, ManualClock())
    assert isinstance(first, FetchEngine)
    assert isinstance(second, FetchEngine)
    assert first is not second
    first.close()
    second.close()


_FORKING = """
import os, sys
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading.task_engine import worker_engines

options = parse_options({"kafka.bootstrap.servers": "b:1", "subscribe": "t", "remote.storage.fetcher.class": "memory"})
with worker_engines.lend(options) as parents:
    pass
if os.fork() == 0:
    with worker_engines.lend(options) as own:
        os._exit(0 if own is not parents else 3)
_, status = os.wait()
with worker_engines.lend(options) as again:
    reader = again.reader(ReadRequest("t", 0, 0))
    reader.stop()
sys.exit(os.waitstatus_to_exitcode(status) or (0 if again is parents else 4))
"""


def test_forked_worker_has_its_own_engines() -> None:
    # Without -X dev's warning about forks of processes with threads, as PySpark's daemon forks before it has any.
    done = subprocess.run([sys.executable, "-c", _FORKING], timeout=120, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
