"""Every setting of the installed librdkafka passes through unchanged; ours never reach it; all errors are librdkafka's own.

The settings are found in the library itself: each string of it that a consumer takes for the name of one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaException
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kafka_remote_client import Consumer
from kafka_remote_client.config import SETTINGS
from kafka_remote_client.consumer.direct_consumer import DirectConsumer

NEVER = "no.such.setting.anywhere"
GROUP: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
ON: dict[str, Any] = {"fetch.remote.enabled": True, "remote.storage.fetcher.class": "memory"}
OURS = {setting.name for setting in SETTINGS} | {"remote.storage.fetcher.allowed.hosts"}


@cache
def librdkafkas() -> tuple[str, ...]:
    """All names. Settings that only a C application may set are included."""
    (library,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
    strings = set(re.findall(rb"(?<=\0)[a-z][a-z0-9._]{2,60}(?=\0)", library.read_bytes()))
    return tuple(sorted(name for name in (string.decode() for string in strings) if _is_known(name)))


def _is_known(name: str) -> bool:
    text = error_text({name: None, NEVER: 1})
    return "No such configuration property" not in text or NEVER in text


def error_text(config: dict[str, Any], kind: type[confluent_kafka.Consumer] = confluent_kafka.Consumer) -> str:
    """Returns the error of ``kind`` for a configuration. The configuration has an unknown name, so there is one."""
    # confluent_kafka asks whatever stands at default.topic.config for its keys.
    with pytest.raises((KafkaException, AttributeError, TypeError, ValueError)) as refused:
        kind({**GROUP, **config})
    return f"{refused.type.__name__}: {refused.value}"


class Recording(confluent_kafka.Consumer):
    """Replaces confluent_kafka's own class and records its arguments."""

    given: dict[str, Any]

    def __init__(self, config: dict[str, Any]) -> None:
        self.given = config
        super().__init__(GROUP)


class Ours(Consumer, Recording):
    """Consumer with the recording class as its base."""


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-1, 1 << 40), st.text(max_size=8), st.just("earliest"))
ACTED_ON = ("enable.auto.offset.store", "stats_cb", "oauth_cb", "error_cb", "throttle_cb", "log_cb")
"""What a consumer with direct fetch has to change or to wrap has tests of its own."""


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    taken = sorted(set(librdkafkas()) - {*ACTED_ON, "plugin.library.paths"})
    return draw(
        st.dictionaries(st.sampled_from([*taken, "group.instance.id", NEVER, "default.topic.config"]), VALUES, max_size=12)
    )


def test_the_names_are_found() -> None:
    assert len(librdkafkas()) > 150
    assert {"debug", "auto.offset.reset", "isolation.level", "group.protocol", "ssl.key.pem"} <= set(librdkafkas())
    assert not OURS & set(librdkafkas())


@given(configurations())
@hypothesis_settings(deadline=None, max_examples=60)
def test_off_everything_goes_through_in_its_order(config: dict[str, Any]) -> None:
    before = list(config.items())
    consumer = Ours({**config, "fetch.remote.enabled": False, "fetch.remote.max.in.flight": 3})
    assert list(consumer.given.items()) == before
    by_name = Ours(**config)
    assert list(by_name.given.items()) == before
    assert list(config.items()) == before
    consumer.close()
    by_name.close()


@given(configurations())
@hypothesis_settings(deadline=None, max_examples=25)
def test_on_everything_but_the_storing_of_offsets_goes_through(config: dict[str, Any]) -> None:
    plain = {name: value for name, value in config.items() if not name.startswith(("ssl.", "sasl.", "security.", "https."))}
    before = dict(plain)
    consumer = Ours({**plain, **GROUP, **ON})
    assert isinstance(consumer, DirectConsumer)
    assert consumer.given == {**before, **GROUP, "enable.auto.offset.store": False}
    assert plain == before
    consumer.close()


def test_on_settings_among_those_of_topics_count_as_others() -> None:
    among_topics = {"enable.auto.offset.store": True, "stats_cb": print, "auto.offset.reset": "earliest"}
    consumer = Ours({**GROUP, **ON, "auto.offset.reset": "latest", "default.topic.config": among_topics})
    assert isinstance(consumer, DirectConsumer)
    given = dict(consumer.given)
    assert given.pop("stats_cb") is not print, "it is wrapped"
    assert given == {**GROUP, "auto.offset.reset": "earliest", "enable.auto.offset.store": False}
    consumer.close()


@pytest.mark.parametrize("value", ["\N{SNOWMAN}", -5, True, None, 3.5], ids=["text", "number", "truth", "none", "float"])
def test_what_is_wrong_is_said_by_librdkafka(value: object) -> None:
    for name in librdkafkas():
        config = {name: value, NEVER: 1}
        assert error_text(config, Consumer) == error_text(config), name


@given(configurations())
@example({"default.topic.config": None})
@example({"enable.auto.offset.store": None})
@hypothesis_settings(deadline=None, max_examples=25)
def test_librdkafka_reports_errors_with_direct_fetch_on_too(config: dict[str, Any]) -> None:
    wrong = {**config, NEVER: 1}
    assert error_text({**wrong, **ON}, Consumer) == error_text(wrong)


def test_misspelled_setting_is_refused_by_us_or_by_librdkafka() -> None:
    for config in ({"fetch.remote.enable": True}, {"fetch.remote.enabled": "perhaps"}):
        assert error_text(config, Consumer).startswith("ConfigurationError")
    for name in ("fetch_remote_enabled", "fetch.remoted", "group_id"):
        assert error_text({name: True}, Consumer) == error_text({name: True})
