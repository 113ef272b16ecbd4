from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from kafka_remote_client.cli.prices import DEFAULT_PRICES, ReaderPlace, in_dollars, load_prices, parse_prices
from kafka_remote_client.errors import ConfigurationError


def test_default_text_is_the_default_table() -> None:
    assert parse_prices(tomllib.loads(DEFAULT_PRICES)) == load_prices(None)


def test_file_changes_what_it_names(tmp_path: Path) -> None:
    given = {"classes": {"standard": {"per_gb_month": 0.02}}, "transfer": {"internet": 1}}
    toml = "[classes.standard]\nper_gb_month = 0.02\n[transfer]\ninternet = 1\n"
    for name, text in {"p.json": json.dumps(given), "p.toml": toml}.items():
        path = tmp_path / name
        path.write_text(text)
        found, default = load_prices(str(path)), load_prices(None)
        assert found.of_class("standard").per_gb_month == 0.02
        assert found.of_class("standard").per_1000_gets == default.of_class("standard").per_1000_gets
        assert (found.transfer[ReaderPlace.INTERNET], found.disk_per_gb_month) == (1.0, default.disk_per_gb_month)


def test_new_class_needs_all_its_prices() -> None:
    cold = {"per_gb_month": 1, "per_1000_gets": 2, "retrieval_per_gb": 3, "restore_hours": 4}
    assert parse_prices({"classes": {"cold": cold}}).of_class("cold").restore_hours == 4.0
    with pytest.raises(ConfigurationError, match=r"classes\.cold lacks per_1000_gets, restore_hours, retrieval_per_gb"):
        parse_prices({"classes": {"cold": {"per_gb_month": 1}}})


def test_store_sends_to_zones_of_its_region_for_nothing() -> None:
    table = load_prices(None)
    assert [table.from_store(place) for place in ReaderPlace] == [0.0, 0.0, 0.02, 0.09]
    assert [table.from_broker(place) for place in ReaderPlace] == [0.0, 0.02, 0.02, 0.09]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([], "the file must be a table"),
        ({"clases": {}}, "the file has no 'clases'; known names: classes, disk, transfer"),
        ({"disk": {"per_gb": 1}}, "disk has no 'per_gb'; known names: per_gb_month"),
        (
            {"classes": {"standard": {"per_gb_month": -1}}},
            "classes.standard.per_gb_month must be a number from 0 to 1000000000",
        ),
        ({"transfer": {"internet": "much"}}, "transfer.internet must be a number from 0 to 1000000000"),
        ({"transfer": {"internet": 10**500}}, "transfer.internet must be a number from 0 to 1000000000"),
        ({"transfer": {"internet": float("nan")}}, "transfer.internet must be a number from 0 to 1000000000"),
        ({"disk": {"per_gb_month": True}}, "disk.per_gb_month must be a number from 0 to 1000000000"),
        ({"classes": {"standard": 1}}, "classes.standard must be a table"),
    ],
)
def test_invalid_entry_is_named(given: object, text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_prices(given)
    assert str(raised.value) == text


def test_unreadable_files_and_unknown_classes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--prices: .*none\.toml cannot be read: No such file"):
        load_prices(str(tmp_path / "none.toml"))
    (tmp_path / "bad.toml").write_text("[")
    with pytest.raises(ConfigurationError, match=r"bad\.toml is neither TOML nor JSON"):
        load_prices(str(tmp_path / "bad.toml"))
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ConfigurationError, match=r"deep\.json is neither TOML nor JSON \(\.json\): nested too deeply"):
        load_prices(str(tmp_path / "deep.json"))
    with pytest.raises(ConfigurationError, match="unknown storage class 'cold'; known classes: deep-archive, glacier, "):
        load_prices(None).of_class("cold")


def test_small_amounts_never_look_like_zero() -> None:
    assert [in_dollars(amount) for amount in (0.0, 0.00009, 0.0001, 1234.5)] == [
        "$0.0000",
        "<$0.0001",
        "$0.0001",
        "$1,234.5000",
    ]
