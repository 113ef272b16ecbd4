from __future__ import annotations

import pytest

from kafka_remote_client import Consumer
from kafka_remote_client.consumer import class_choice
from kafka_remote_client.exporters.readings import readings

OFF = "direct fetch is off: the class of a consumer"


class Plain:
    pass


class Direct(Plain):
    def poll(self) -> str:
        return "direct"


class Applications(Plain):
    """An application's class."""

    def poll(self) -> str:
        return "application, " + super().poll()  # type: ignore[misc] # of the class that comes between


def test_a_class_is_completed_between_its_own_methods_and_the_plain_ones() -> None:
    assert class_choice.completed(Plain, Plain, Direct) is Direct
    assert class_choice.completed(Direct, Plain, Direct) is Direct
    made = class_choice.completed(Applications, Plain, Direct)
    assert made is class_choice.completed(Applications, Plain, Direct)
    assert (made.__name__, made.__module__, made.__doc__) == ("Applications", __name__, "An application's class.")
    one = Applications()
    assert class_choice.become(one, made) is one
    assert one.poll() == "application, direct"


def test_objects_of_confluent_kafkas_class_can_change_theirs() -> None:
    assert class_choice.WORKS


def test_an_object_of_another_memory_layout_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError):
        class_choice.become(3, Direct)

    def refuse(*_: object) -> None:
        raise TypeError("object layout differs")

    monkeypatch.setattr(class_choice, "become", refuse)
    assert not class_choice._works()


@pytest.mark.parametrize(("works", "value"), [(False, "1"), (True, "0")])
def test_where_it_fails_or_is_turned_off_direct_fetch_is_off_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, works: bool, value: str
) -> None:
    monkeypatch.setattr(class_choice, "WORKS", works)
    monkeypatch.setenv("KAFKA_REMOTE_CLIENT_CLASS_CHOICE", value)
    Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, "fetch.remote.enabled": False}).close()
    assert OFF not in caplog.text, "direct fetch is off in the settings"
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0, "fetch.remote.enabled": True})
    assert type(consumer) is Consumer
    assert not any(one.value for one in readings(consumer.metrics()))
    consumer.close()
    assert caplog.text.count(OFF) == 1
