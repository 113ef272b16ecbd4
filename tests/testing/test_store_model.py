from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import Any

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.testing import AnswerKind, FixedLatency, LognormalLatency, StoreAnswer, StoreModel, StoreSampler

SIZE = 1 << 20


def answers(model: StoreModel, count: int = 20_000, seed: int = 7) -> list[StoreAnswer]:
    sampler = StoreSampler(model, seed)
    return [sampler.answer(SIZE, 1, float(number)) for number in range(count)]


def test_by_default_an_answer_takes_no_time() -> None:
    assert set(answers(StoreModel(), 10)) == {StoreAnswer(AnswerKind.ANSWERED, 0.0, 0.0)}


def test_a_fixed_latency_is_that_of_each_answer() -> None:
    (answer,) = set(answers(StoreModel(FixedLatency(0.02), connection_bytes_per_second=SIZE), 10))
    assert (answer.first_byte_seconds, answer.transfer_seconds, answer.seconds) == (0.02, 1.0, 1.02)


def test_a_lognormal_latency_has_the_given_percentiles() -> None:
    seconds = sorted(answer.first_byte_seconds for answer in answers(StoreModel(LognormalLatency(0.02, 0.1))))
    assert statistics.median(seconds) == pytest.approx(0.02, rel=0.03)
    assert seconds[int(0.99 * len(seconds))] == pytest.approx(0.1, rel=0.1)


def test_equal_percentiles_are_a_fixed_latency() -> None:
    seconds = [one.first_byte_seconds for one in answers(StoreModel(LognormalLatency(0.02, 0.02)), 10)]
    assert seconds == pytest.approx([0.02] * 10)


def test_shares_of_late_and_lost_answers_are_those_of_the_model() -> None:
    drawn = answers(StoreModel(FixedLatency(0.02), late_share=0.02, late_seconds=2.0, lost_share=0.001))
    kinds = Counter(answer.kind for answer in drawn)
    assert kinds[AnswerKind.LATE] / len(drawn) == pytest.approx(0.02, abs=0.003)
    assert kinds[AnswerKind.LOST] / len(drawn) == pytest.approx(0.001, abs=0.0008)
    assert {one.first_byte_seconds for one in drawn if one.kind is AnswerKind.LATE} == {2.02}
    assert {one.seconds for one in drawn if one.kind is AnswerKind.LOST} == {math.inf}


def test_a_store_above_its_rate_answers_503() -> None:
    sampler = StoreSampler(StoreModel(requests_per_second=3), 1)
    times = [0.0, 0.1, 0.2, 0.3, 0.9, 1.0, 1.05, 1.1]
    throttled = [at for at in times if sampler.answer(SIZE, 1, at).kind is AnswerKind.THROTTLED]
    assert throttled == [0.3, 0.9, 1.05], "three within each second, and what is refused does not count"


@pytest.mark.parametrize(
    ("model", "in_flight", "seconds"),
    [
        (StoreModel(), 64, 0.0),
        (StoreModel(connection_bytes_per_second=SIZE / 2), 64, 2.0),
        (StoreModel(total_bytes_per_second=SIZE), 4, 4.0),
        (StoreModel(total_bytes_per_second=SIZE), 0, 1.0),
        (StoreModel(connection_bytes_per_second=SIZE / 2, total_bytes_per_second=SIZE), 1, 2.0),
        (StoreModel(connection_bytes_per_second=SIZE / 2, total_bytes_per_second=SIZE), 8, 8.0),
    ],
)
def test_the_smaller_bandwidth_counts(model: StoreModel, in_flight: int, seconds: float) -> None:
    assert model.transfer_seconds(SIZE, in_flight) == seconds


def test_a_seed_gives_the_same_answers_again() -> None:
    model = StoreModel(LognormalLatency(0.02, 0.1), late_share=0.1, lost_share=0.1)
    assert answers(model, 100) == answers(model, 100)
    assert answers(model, 100) != answers(model, 100, seed=8)


@pytest.mark.parametrize(
    "given",
    [
        {"late_share": -0.1},
        {"lost_share": 1.1},
        {"late_seconds": -1.0},
        {"connection_bytes_per_second": 0},
        {"total_bytes_per_second": -1.0},
        {"requests_per_second": math.nan},
    ],
)
def test_an_invalid_model_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        StoreModel(**given)


@pytest.mark.parametrize("latency", [(0.0, 1.0), (0.2, 0.1)])
def test_invalid_percentiles_are_refused(latency: tuple[float, float]) -> None:
    with pytest.raises(ConfigurationError, match="p50"):
        LognormalLatency(*latency)


def test_a_negative_latency_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="seconds"):
        FixedLatency(-0.1)
