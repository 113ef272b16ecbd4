import re
from collections.abc import Mapping
from typing import cast

import attrs
import pytest

from kafka_remote_client.config import FETCHER_PREFIX, PREFIX, SETTINGS, STORE_PREFIX, RemoteFetchConfig, Setting, split_config
from kafka_remote_client.errors import ConfigurationError

KIP = {
    "fetch.remote.enabled": False,
    "remote.storage.fetcher.class": None,
    "remote.storage.fetcher.class.path": None,
    "fetch.remote.connect.timeout.ms": 1000,
    "fetch.remote.read.timeout.ms": 5000,
}


def test_the_kips_settings_come_first_with_its_defaults() -> None:
    assert {setting.name: setting.default for setting in SETTINGS[:5]} == KIP


def test_the_table_and_the_value_agree() -> None:
    value = RemoteFetchConfig()
    assert {setting.attribute for setting in SETTINGS} == {field.name for field in attrs.fields(RemoteFetchConfig)} - {
        "fetcher_options"
    }
    for setting in SETTINGS:
        assert getattr(value, setting.attribute) == setting.default
        assert setting.doc.endswith(".")
        assert setting.name.startswith((PREFIX, FETCHER_PREFIX, STORE_PREFIX))


def test_takes_its_own_keys_and_leaves_the_others() -> None:
    given = {"group.id": "g", "fetch.remote.enabled": "true", "fetch.remote.retries": "0", "bootstrap.servers": "b"}
    remote, inner = split_config(given)
    assert (remote.enabled, remote.retries) == (True, 0)
    assert inner == {"group.id": "g", "bootstrap.servers": "b"}
    assert list(given) == ["group.id", "fetch.remote.enabled", "fetch.remote.retries", "bootstrap.servers"]


def test_leaves_a_key_that_is_not_a_string_to_librdkafka() -> None:
    given = cast("Mapping[str, object]", {5: 3})
    assert split_config(given)[1] == given


def test_the_fetcher_gets_its_keys_and_the_shared_limits() -> None:
    remote, inner = split_config({"remote.storage.fetcher.anything": 7, "fetch.remote.read.timeout.ms": 9})
    assert inner == {}
    assert remote.fetcher_configs() == {
        "fetch.remote.connect.timeout.ms": 1000,
        "fetch.remote.read.timeout.ms": 9,
        "fetch.remote.min.bytes.per.second": 65536,
        "fetch.remote.max.in.flight": 64,
        "remote.storage.fetcher.anything": 7,
    }


def test_the_fetcher_gets_the_store_url() -> None:
    remote, _ = split_config({"remote.storage.store.url": "file:///tier"})
    assert remote.fetcher_configs()["remote.storage.store.url"] == "file:///tier"


def test_repr_shows_no_value_of_the_fetchers_options() -> None:
    remote, _ = split_config({"remote.storage.fetcher.secret": "hush"})
    assert "hush" not in repr(remote)


@pytest.mark.parametrize(
    ("text", "value"), [(True, True), ("True", True), ("1", True), ("t", True), (False, False), ("f", False), ("0", False)]
)
def test_booleans_have_librdkafkas_names(text: object, value: bool) -> None:
    assert split_config({"fetch.remote.enabled": text})[0].enabled is value


def test_none_means_the_default() -> None:
    assert split_config({"fetch.remote.read.timeout.ms": None})[0].read_timeout_ms == 5000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fetch.remote.nothing", 1),
        ("fetch.remote.enabled", "maybe"),
        ("fetch.remote.read.timeout.ms", "soon"),
        ("fetch.remote.read.timeout.ms", True),
        ("fetch.remote.read.timeout.ms", 0),
        ("fetch.remote.read.timeout.ms", 600_001),
        ("remote.storage.fetcher.class", 5),
        ("remote.storage.fetcher.class.path", "somewhere"),
    ],
)
def test_an_invalid_value_is_refused_by_name_without_the_value(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name.replace(".", r"\.")) as refused:
        split_config({name: value})
    assert str(value) not in str(refused.value) or isinstance(value, int)


def test_the_class_path_is_accepted_with_its_opt_in() -> None:
    config = {"remote.storage.fetcher.class.path": "somewhere", "fetch.remote.allow.class.path": True}
    assert split_config(config)[0].fetcher_class_path == "somewhere"


def test_an_integer_without_bounds_is_accepted() -> None:
    assert Setting("fetch.remote.some", int, 1, "", "Some.").parse("-5") == -5


def test_a_source_that_reads_a_store_needs_one() -> None:
    for source in ("metadata-topic", "listing"):
        with pytest.raises(ConfigurationError, match=r"needs remote\.storage\.store\.url"):
            split_config({"fetch.remote.location.source": source})
        remote, _ = split_config({"fetch.remote.location.source": source, "remote.storage.store.url": "file:///tier"})
        assert (remote.location_source, remote.store_url) == (source, "file:///tier")


def test_an_unknown_choice_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigurationError, match="broker, metadata-topic, listing"):
        split_config({"fetch.remote.location.source": "guess"})


def test_a_misspelt_key_of_the_store_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"remote\.storage\.store\.prefix"):
        split_config({"remote.storage.store.prefix": "p/"})


def test_the_store_gets_the_fetchers_keys_without_their_prefix() -> None:
    remote, _ = split_config({"remote.storage.fetcher.s3.region": "here"})
    assert remote.store_options() == {"s3.region": "here"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("fetch.remote.retires", "fetch.remote.retries"),
        ("remote.storage.store.layuot", "remote.storage.store.layout"),
        ("remote.storage.fetchers.class", "remote.storage.fetcher.class"),
        ("remote.store.url", "remote.storage.store.url"),
    ],
)
def test_an_unknown_key_is_refused_with_the_closest_one(name: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{re.escape(name)}; did you mean {re.escape(meant)}\?"):
        split_config({name: "x"})
