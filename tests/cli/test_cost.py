from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from kafka_remote_client.cli.cost import PathCost, ReadPlan, SegmentSize, advice, path_costs, storage_bill
from kafka_remote_client.cli.prices import ReaderPlace, load_prices, parse_prices
from kafka_remote_client.errors import ConfigurationError
from tests.support.cli_run import failed, printed
from tests.support.golden import golden_local

MIB = 1 << 20
PRICES = load_prices(None)
SEGMENTS = [SegmentSize(1_000 * MIB, 500 * MIB), SegmentSize(9 * MIB, 9 * MIB)]
PLAN = ReadPlan("standard", ReaderPlace.SAME_ZONE, 8 * MIB, MIB)

COST = """\
epochs                  direct    broker
GETs                        13        13
bytes from the store   481,300   481,300
bytes to the reader    481,300   481,300
requests              <$0.0001  <$0.0001
retrieval              $0.0000   $0.0000
transfer               $0.0000  <$0.0001
total                 <$0.0001  <$0.0001
seconds                    0.5         -
advice  A GET has 37,023 bytes on average: its latency and price dominate. Read
        more at a time, or through the broker.
"""
BILL = """\
disks only    12,960,000 GB, $1,036,800 a month
with a tier   $332,640 a month
on disks      432,000 GB, $34,560 a month
in the store  12,960,000 GB, $298,080 a month
"""


def costs(**changes: object) -> tuple[PathCost, PathCost]:
    return path_costs(SEGMENTS, attrs.evolve(PLAN, **changes), PRICES)


def advised(**changes: object) -> str:
    plan = attrs.evolve(PLAN, **changes)
    return "\n".join(advice(path_costs(SEGMENTS, plan, PRICES), plan, PRICES))


def test_direct_reads_ask_for_ranges_and_brokers_for_each_answer() -> None:
    direct, broker = costs()
    assert (direct.gets, broker.gets) == (125 + 2, 1_000 + 9)
    assert direct.requests_dollars == pytest.approx(127 * 0.0004 / 1_000)
    assert (direct.store_bytes, broker.store_bytes) == (509 * MIB, 509 * MIB)


def test_stored_bytes_leave_the_store_and_original_bytes_the_broker() -> None:
    direct, broker = costs(place=ReaderPlace.INTERNET)
    assert (direct.sent_bytes, broker.sent_bytes) == (509 * MIB, 1_009 * MIB)
    assert direct.transfer_dollars == pytest.approx(509 * MIB / 1e9 * 0.09)
    assert broker.transfer_dollars == pytest.approx(1_009 * MIB / 1e9 * 0.09)


def test_retrieval_costs_the_same_on_both_paths() -> None:
    direct, broker = costs(storage_name="standard-ia")
    assert direct.retrieval_dollars == broker.retrieval_dollars == pytest.approx(509 * MIB / 1e9 * 0.01)


def test_other_zone_costs_only_through_the_broker() -> None:
    direct, broker = costs(place=ReaderPlace.OTHER_ZONE)
    assert (direct.transfer_dollars, broker.transfer_dollars) == (0.0, pytest.approx(1_009 * MIB / 1e9 * 0.02))
    assert direct.dollars < broker.dollars


def test_time_follows_from_measured_rates() -> None:
    assert [one.seconds for one in costs()] == [None, None]
    direct, broker = costs(direct_rate=509.0 * MIB, broker_rate=100.9 * MIB)
    assert (direct.seconds, broker.seconds) == (pytest.approx(1.0), pytest.approx(10.0))


def test_cheap_direct_reads_have_no_cautions() -> None:
    saved = advised(place=ReaderPlace.OTHER_ZONE)
    assert saved.startswith("Direct reads save $0.0215")
    assert "\n" not in saved


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"storage_name": "deep-archive"}, "deep-archive is an archive: objects must be restored first, in about 12 h"),
        ({"place": ReaderPlace.OTHER_REGION}, "for bytes that leave its region. Read where the store is."),
        ({"place": ReaderPlace.INTERNET}, "for bytes that leave its region. Read where the store is."),
        ({"compacted": True}, "Brokers do not tier compacted topics"),
        ({"read_bytes": 4_096}, "A GET has 2,066 bytes on average: its latency and price dominate"),
    ],
)
def test_cases_that_do_not_pay_are_named(changes: dict[str, object], text: str) -> None:
    found = advised(**changes)
    assert text in found
    assert "Direct reads save" not in found


def test_dearer_direct_reads_say_so() -> None:
    plan = attrs.evolve(PLAN, range_bytes=512 << 10)
    assert "Direct reads cost $0.0004 more" in "\n".join(advice(path_costs(SEGMENTS, plan, PRICES), plan, PRICES))


def test_empty_topic_costs_nothing_and_unknown_class_is_an_error() -> None:
    assert [one.dollars for one in path_costs([], PLAN, PRICES)] == [0.0, 0.0]
    with pytest.raises(ConfigurationError, match="unknown storage class 'cold'"):
        path_costs(SEGMENTS, attrs.evolve(PLAN, storage_name="cold"), PRICES)


def test_worked_example_of_tiered_storage() -> None:
    """The example of a text on KIP-405: 5 GB/s, 30 days kept, of which 1 day on disks and 29 days in S3 Standard.

    It says: 13 PB on disks, $130K a month; with a tier 430 TB on disks ($4K) and 12.6 PB in S3 ($290K). Its price of disks
    is thus $0.01 a GB and month, where its own table has $0.08 to $0.15. It leaves the local day out of S3; brokers do not.
    """
    standard = PRICES.of_class("standard")
    bill = storage_bill(5e9, 30, 1, parse_prices({"disk": {"per_gb_month": 0.01}}), standard)
    assert bill.all_bytes / 1e15 == pytest.approx(13, rel=0.01)
    assert bill.local_bytes / 1e12 == pytest.approx(430, rel=0.01)
    assert (bill.remote_bytes - bill.local_bytes) / 1e15 == pytest.approx(12.6, rel=0.01)
    assert bill.disks_only_dollars == pytest.approx(130_000, rel=0.01)
    assert bill.local_dollars == pytest.approx(4_000, rel=0.1)
    assert bill.remote_dollars == pytest.approx(290_000 * 30 / 29, rel=0.01)
    by_its_table = storage_bill(5e9, 30, 1, PRICES, standard)
    assert by_its_table.disks_only_dollars == pytest.approx(8 * bill.disks_only_dollars)
    assert by_its_table.local_dollars + by_its_table.remote_dollars < by_its_table.disks_only_dollars / 3


def test_store_has_the_local_days_too() -> None:
    bill = storage_bill(1e6, 1, 7, PRICES, PRICES.of_class("standard"))
    assert (bill.local_bytes, bill.remote_bytes) == (bill.all_bytes, bill.all_bytes)


def test_cost_of_a_topic_id_that_the_store_does_not_have_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    tier = (golden_local() / "remote").as_uri()
    told, status = failed(capsys, "cost", "delrec", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--store", tier)
    assert "--topic-id: the store has no segments of delrec with the topic id AAAAAAAAAAAAAAAAAAAAAQ; it has topic id " in told
    assert status == 2
    known = told.rsplit(" ", 1)[1].strip()
    assert "direct" in printed(capsys, "cost", "delrec", "--topic-id", known, "--store", tier)


def test_cost_of_both_paths_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    store = (golden_local() / "remote").as_uri()
    asked = ["cost", "epochs", "--store", store, "--reader", "other-zone", "--megabytes-per-second", "1"]
    assert printed(capsys, *asked) == COST
    direct, broker, advised = map(json.loads, printed(capsys, *asked, "--output", "json").splitlines())
    assert (direct["path"], broker["path"]) == ("direct", "broker")
    assert direct["dollars"] == direct["requests_dollars"]
    assert broker["dollars"] == broker["requests_dollars"] + broker["transfer_dollars"]
    assert (direct["seconds"], broker["seconds"]) == (direct["sent_bytes"] / 1e6, None)
    assert len(advised["advice"]) == 1


def test_prices_of_a_file_are_used(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(printed(capsys, "cost", "--print-prices").replace("0.0004", "4000000.0"))
    store = (golden_local() / "remote").as_uri()
    text = printed(capsys, "cost", "epochs", "--store", store, "--prices", str(tmp_path / "prices.toml"), "--output", "json")
    direct = json.loads(text.splitlines()[0])
    assert direct["requests_dollars"] == direct["gets"] * 4000.0


def test_bill_of_the_worked_example_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["cost", "--write-megabytes-per-second", "5000", "--retention-days", "30", "--local-days", "1"]
    assert printed(capsys, *asked) == BILL
    bill = json.loads(printed(capsys, *asked, "--output", "json"))
    assert bill["all_bytes"] == bill["remote_bytes"] == 30 * bill["local_bytes"] == 12_960_000_000_000_000


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give a TOPIC and --store, or --write-megabytes-per-second"),
        (["delrce", "--store", "{store}"], "found no segments of topic delrce"),
        (["delrec", "--store", "{store}", "--storage-class", "cold"], "unknown storage class 'cold'"),
        (["delrec", "--store", "{store}", "--reader", "moon"], "'moon' is not one of"),
        (["--write-megabytes-per-second", "1", "--prices", "{store}"], "cannot be read"),
        (["--write-megabytes-per-second", "inf"], "Invalid value for '--write-megabytes-per-second'"),
        (["--write-megabytes-per-second", "1", "--retention-days", "inf"], "Invalid value for '--retention-days'"),
        (["--write-megabytes-per-second", "1", "--local-days", "1e300"], "Invalid value for '--local-days'"),
    ],
)
def test_wrong_use_of_cost_has_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    store = (golden_local() / "remote").as_uri()
    told, status = failed(capsys, "cost", *(argument.format(store=store) for argument in arguments))
    assert text in told
    assert status == 2
