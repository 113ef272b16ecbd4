import pytest

from kafka_remote_client.metrics import BOUNDS, BY_BOUND, METRICS, CacheStatistics, FetchMetrics, SampledStat
from tests.support.locations import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_new_snapshot_has_all_metrics_at_zero(clock: ManualClock) -> None:
    snapshot = FetchMetrics(clock).snapshot()
    assert set(snapshot) == set(METRICS)
    assert all(value in (0, 0.0, {}) for name, value in snapshot.items() if name not in BY_BOUND)
    assert all(snapshot[name] == dict.fromkeys([*map(str, BOUNDS), "+Inf"], 0) for name in BY_BOUND)


def test_histograms_count_seconds_up_to_inclusive_bounds(clock: ManualClock) -> None:
    metrics = FetchMetrics(clock)
    for seconds in (0.25, 0.2500001, 60.0):
        metrics.range_done(1, seconds)
    metrics.range_done(0, 0.5, "timeout", first_byte_seconds=0.25)
    metrics.range_decoded(0.0001)
    metrics.locations_done(3, 0.02)
    snapshot = metrics.snapshot()
    first_byte, decode = (snapshot[f"remote-fetch-{name}-seconds-bucket"] for name in ("first-byte", "decode"))
    assert isinstance(first_byte, dict)
    assert isinstance(decode, dict)
    assert [first_byte[bound] for bound in ("0.1", "0.25", "+Inf")] == [0, 1, 1], "of three ranges nothing came"
    assert snapshot["remote-fetch-first-byte-seconds-sum"] == pytest.approx(0.25)
    assert [decode[bound] for bound in ("0.0001", "+Inf")] == [1, 1]
    assert snapshot["remote-fetch-decode-seconds-sum"] == pytest.approx(0.0001)
    counts = snapshot["remote-fetch-latency-seconds-bucket"]
    assert isinstance(counts, dict)
    assert list(counts) == [*map(str, BOUNDS), "+Inf"]
    assert [counts[bound] for bound in ("0.1", "0.25", "0.5", "30.0", "+Inf")] == [0, 1, 3, 3, 4]
    assert snapshot["remote-fetch-latency-seconds-sum"] == pytest.approx(61.0000001)
    located = snapshot["remote-fetch-location-latency-seconds-bucket"]
    assert isinstance(located, dict)
    assert located["+Inf"] == 1, "three at once have one duration"
    assert snapshot["remote-fetch-location-latency-seconds-sum"] == pytest.approx(0.02)


def test_counts_ranges_their_bytes_and_their_time(clock: ManualClock) -> None:
    metrics = FetchMetrics(clock)
    metrics.range_done(1000, 0.1)
    metrics.range_done(500, 0.3, "timeout")
    clock.now += 30
    snapshot = metrics.snapshot()
    assert snapshot["remote-fetch-request-total"] == 2
    assert snapshot["remote-fetch-bytes-total"] == 1500
    assert snapshot["remote-fetch-latency-avg"] == pytest.approx(200)
    assert snapshot["remote-fetch-latency-max"] == pytest.approx(300)
    assert snapshot["remote-fetch-request-rate"] == pytest.approx(2 / 30)
    assert snapshot["remote-fetch-bytes-rate"] == pytest.approx(1500 / 30)
    assert snapshot["remote-fetch-errors-total"] == {"timeout": 1}


def test_rates_means_and_maxima_forget_what_is_a_minute_old(clock: ManualClock) -> None:
    metrics = FetchMetrics(clock)
    metrics.range_done(1000, 0.5)
    metrics.locations_done(1, 0.4)
    clock.now += 40
    metrics.range_done(600, 0.1)
    recent = metrics.snapshot()
    assert recent["remote-fetch-latency-max"] == pytest.approx(500)
    assert recent["remote-fetch-bytes-rate"] == pytest.approx(1600 / 40)
    clock.now += 20
    later = metrics.snapshot()
    assert later["remote-fetch-latency-max"] == later["remote-fetch-latency-avg"] == pytest.approx(100)
    assert later["remote-fetch-location-latency-max"] == 0
    assert later["remote-fetch-bytes-rate"] == pytest.approx(600 / 50)
    assert later["remote-fetch-bytes-total"] == 1600, "totals remain"
    clock.now += 60
    idle = metrics.snapshot()
    rates = [name for name in METRICS if name.endswith(("-rate", "-avg", "-max"))]
    assert [idle[name] for name in rates] == [0.0] * len(rates)


@pytest.mark.parametrize(
    ("at", "now", "counted", "seconds"),
    [
        # by the rule of Kafka's Rate.windowSize for two windows of 30 s
        ([], 5, 0, 30),
        ([0], 0, 1, 30),  # one amount: as if a whole window were over
        ([0], 10, 1, 40),
        ([0], 29.9, 1, 59.9),
        ([0], 30, 1, 30),  # now one is
        ([0, 29], 45, 2, 45),
        ([0, 31], 59, 2, 59),
        ([0, 31], 60, 1, 59),  # the first window is forgotten: 29 s of the second and a whole one
        ([0, 100], 100, 1, 30),
    ],
)
def test_a_rate_is_over_one_whole_window_at_least(at: list[float], now: float, counted: int, seconds: float) -> None:
    stat = SampledStat()
    for time in at:
        stat.add(6, time)
    assert stat.count_rate(now) == pytest.approx(counted / seconds)
    assert stat.rate(now) == pytest.approx(6 * counted / seconds)


def test_counts_locations_errors_fallbacks_and_totals(clock: ManualClock) -> None:
    metrics = FetchMetrics(clock)
    metrics.locations_done(1, 0.02)
    metrics.locations_done(1, 0.01)
    metrics.error("protocol")
    metrics.fallback("timeout")
    metrics.fallback("timeout")
    metrics.add("remote-fetch-records-total", 7)
    metrics.watch_memory(lambda: 40)
    metrics.watch_memory(lambda: 2)
    metrics.segment_opened(1000)
    metrics.segment_opened(500)
    snapshot = metrics.snapshot()
    assert (snapshot["remote-fetch-segment-total"], snapshot["remote-fetch-segment-bytes-total"]) == (2, 1500)
    assert snapshot["remote-fetch-location-request-total"] == 2
    assert snapshot["remote-fetch-location-latency-max"] == pytest.approx(20)
    assert snapshot["remote-fetch-errors-total"] == {"protocol": 1}
    assert snapshot["remote-fetch-fallbacks-total"] == {"timeout": 2}
    assert snapshot["remote-fetch-records-total"] == 7
    assert snapshot["remote-fetch-buffer-bytes"] == 42


def test_counts_reported_added_set_and_watched_values(clock: ManualClock) -> None:
    metrics = FetchMetrics(clock)
    for _ in range(2):
        metrics.over_read(7)
        metrics.add("remote-fetch-handovers-total")
        metrics.locations_done(1, 0.0, throttle_ms=30)
        metrics.error("protocol")
        metrics.range_done(10, 0.0, "timeout")
        metrics.set_total("remote-fetch-records-total", 11)
    metrics.watch_total("remote-fetch-metadata-restarts-total", lambda: 5)
    told = {name: value for name, value in metrics.snapshot().items() if name.endswith("-total") and value}
    assert told == {
        "remote-fetch-over-read-bytes-total": 14,
        "remote-fetch-handovers-total": 2,
        "remote-fetch-location-throttle-time-total": 60,
        "remote-fetch-location-request-total": 2,
        "remote-fetch-errors-total": {"protocol": 2, "timeout": 2},
        "remote-fetch-request-total": 2,
        "remote-fetch-bytes-total": 20,
        "remote-fetch-records-total": 11,
        "remote-fetch-metadata-restarts-total": 5,
    }


def test_statistics_of_caches_of_one_kind_are_added_up(clock: ManualClock) -> None:
    metrics = FetchMetrics(clock)
    metrics.watch_cache("chunk", lambda: CacheStatistics(1, 2, 3, 4, 5))
    metrics.watch_cache("chunk", lambda: CacheStatistics(10, 20, 30, 40, 50))
    metrics.watch_cache("index", lambda: CacheStatistics(hits=7))
    snapshot = metrics.snapshot()
    names = ("hits-total", "misses-total", "evictions-total", "bytes", "damaged-total")
    assert [snapshot[f"remote-fetch-chunk-cache-{name}"] for name in names] == [11, 22, 33, 44, 55]
    assert snapshot["remote-fetch-index-cache-hits-total"] == 7
    assert snapshot["remote-fetch-manifest-cache-hits-total"] == 0
