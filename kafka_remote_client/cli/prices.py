"""An editable table of prices: storage classes of the store, transfer to the reader, disks of brokers.

::

    [disk]               per_gb_month                                    brokers' disks
    [transfer]           same-zone, other-zone, other-region, internet   dollars a GB, by where the reader is
    [classes.NAME]       per_gb_month, per_1000_gets, retrieval_per_gb   a storage class of the store
                         restore_hours                                   0 = readable at once; else it is an archive

A file has the same form, in TOML or JSON, and only what differs from the defaults. A GB is 10^9 bytes. Prices are dollars.

References: the public price lists of Amazon S3, EC2 and EBS, us-east-1, 2025; docs/cli.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs

from kafka_remote_client.cli.options import LONGEST
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.parsing import parse_json, parse_toml

__all__ = [
    "DEFAULT_PRICES",
    "GB",
    "PriceTable",
    "ReaderPlace",
    "StorageClass",
    "gets_of",
    "in_dollars",
    "load_prices",
    "parse_prices",
]

GB = 1e9
_LEAST_SHOWN = 0.0001

DEFAULT_PRICES = """\
# Dollars; a GB is 10^9 bytes. Amazon, us-east-1, 2025. Edit what differs.
[disk]
per_gb_month = 0.08

[transfer]
same-zone = 0.0
other-zone = 0.02
other-region = 0.02
internet = 0.09

[classes.standard]
per_gb_month = 0.023
per_1000_gets = 0.0004
retrieval_per_gb = 0.0
restore_hours = 0.0

[classes.standard-ia]
per_gb_month = 0.0125
per_1000_gets = 0.001
retrieval_per_gb = 0.01
restore_hours = 0.0

[classes.glacier-ir]
per_gb_month = 0.004
per_1000_gets = 0.01
retrieval_per_gb = 0.03
restore_hours = 0.0

[classes.glacier]
per_gb_month = 0.0036
per_1000_gets = 0.0004
retrieval_per_gb = 0.01
restore_hours = 5.0

[classes.deep-archive]
per_gb_month = 0.00099
per_1000_gets = 0.0004
retrieval_per_gb = 0.02
restore_hours = 12.0
"""


class ReaderPlace(StrEnum):
    """Where the reader is, seen from the brokers and the store."""

    SAME_ZONE = "same-zone"
    OTHER_ZONE = "other-zone"
    OTHER_REGION = "other-region"
    INTERNET = "internet"


@attrs.frozen
class StorageClass:
    """Prices of one class. ``restore_hours``: how long an object takes to become readable; 0 = it always is."""

    per_gb_month: float
    per_1000_gets: float
    retrieval_per_gb: float
    restore_hours: float


@attrs.frozen
class PriceTable:
    """All prices. A store charges nothing for transfer to another zone of its own region."""

    classes: Mapping[str, StorageClass]
    transfer: Mapping[ReaderPlace, float]
    disk_per_gb_month: float

    def of_class(self, name: str) -> StorageClass:
        """Raises ConfigurationError, with the known names."""
        if name not in self.classes:
            raise ConfigurationError(f"unknown storage class {name!r}; known classes: {', '.join(sorted(self.classes))}")
        return self.classes[name]

    def from_store(self, place: ReaderPlace) -> float:
        """Dollars for a GB from the store to the reader."""
        in_region = place in {ReaderPlace.SAME_ZONE, ReaderPlace.OTHER_ZONE}
        return 0.0 if in_region else self.transfer[place]

    def from_broker(self, place: ReaderPlace) -> float:
        """Dollars for a GB from a broker to the reader. Brokers are in the store's region."""
        return self.transfer[place]


def in_dollars(amount: float) -> str:
    """An amount for people. A price that is not zero never looks like zero."""
    return f"${amount:,.4f}" if amount >= _LEAST_SHOWN or not amount else f"<${_LEAST_SHOWN}"


def gets_of(segment_bytes: int, range_bytes: int) -> int:
    """GETs of a segment. Positions and ranges are those of the segment as Kafka wrote it, however it is stored."""
    return max(1, math.ceil(segment_bytes / range_bytes))


def load_prices(path: str | None) -> PriceTable:
    """The default table, with what a file changes. Raises ConfigurationError."""
    if path is None:
        return parse_prices({})
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
        given = parse_json(text) if path.endswith(".json") else parse_toml(text)
    except OSError as error:
        raise ConfigurationError(f"--prices: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"--prices: {path} is neither TOML nor JSON (.json): {error}") from None
    return parse_prices(given, f"--prices: {path}: ")


def parse_prices(given: object, where: str = "") -> PriceTable:
    """A parsed file over the defaults. A new class needs all its prices. Raises ConfigurationError, which names the entry."""
    table = parse_toml(DEFAULT_PRICES)
    changed = _section(given, f"{where}the file", {"disk", "transfer", "classes"})
    for name in ("disk", "transfer"):
        table[name] |= _section(changed.get(name, {}), f"{where}{name}", set(table[name]))
    fields = {field.name for field in attrs.fields(StorageClass)}
    for name, prices in _section(changed.get("classes", {}), f"{where}classes").items():
        told = {**table["classes"].get(name, {}), **_section(prices, f"{where}classes.{name}", fields)}
        if missing := sorted(fields - told.keys()):
            raise ConfigurationError(f"{where}classes.{name} lacks {', '.join(missing)}")
        table["classes"][name] = told
    return PriceTable(
        {name: StorageClass(**_prices(prices, f"{where}classes.{name}")) for name, prices in table["classes"].items()},
        {ReaderPlace(name): price for name, price in _prices(table["transfer"], f"{where}transfer").items()},
        _prices(table["disk"], f"{where}disk")["per_gb_month"],
    )


def _section(given: object, where: str, known: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where} must be a table")
    if known is not None and (unknown := sorted(given.keys() - known)):
        raise ConfigurationError(f"{where} has no {unknown[0]!r}; known names: {', '.join(sorted(known))}")
    return given


def _prices(given: Mapping[str, object], where: str) -> dict[str, float]:
    for name, price in given.items():
        if isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price <= LONGEST:
            raise ConfigurationError(f"{where}.{name} must be a number from 0 to {LONGEST:.0f}")
    return {name: float(price) for name, price in given.items() if isinstance(price, int | float)}
