from __future__ import annotations

from pathlib import Path

import pytest

from kafka_remote_client.spark.options.client_options import ClientOptions, TrustStore, refused, whole_number


@pytest.mark.parametrize(("text", "number"), [("5", 5), (" -1 ", -1), ("+7", 7), (str(2**63 - 1), 2**63 - 1)])
def test_reads_what_java_reads(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "1_000", "1.0", "٣", "0x1", str(2**63), "9" * 5000, "- 1"])
def test_reads_nothing_else(text: str) -> None:
    assert whole_number(text) is None


def test_no_secret_is_in_a_repr() -> None:
    shown = repr(ClientOptions({"sasl.password": "hunter2"}, trust_store=TrustStore(Path("t.p12"), "hunter3")))
    assert "hunter" not in shown
    assert "t.p12" in shown
    assert "None" in repr(TrustStore(Path("t.p12")))


def test_an_error_names_the_option() -> None:
    assert str(refused("a.b", "is wrong")) == "kafka.a.b is wrong"
