from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

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


class Registered(Plain):
    """A class of an application that keeps a list of its subclasses."""

    names: ClassVar[list[str]] = []

    def __init_subclass__(cls, *, name: str) -> None:
        Registered.names.append(name)


class Orders(Registered, name="orders"):
    pass


class Kind(type):
    """A metaclass of an application."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, table: str) -> Kind:
        return super().__new__(mcs, name, bases, {**namespace, "table": table})

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, table: str) -> None:
        super().__init__(name, bases, namespace)


class OfTable(Plain, metaclass=Kind, table="orders"):
    pass


class Abstract(Plain, ABC):
    @abstractmethod
    def name(self) -> str: ...


class Concrete(Abstract):
    def name(self) -> str:
        return "concrete"


@pytest.mark.parametrize("cls", [Orders, OfTable, Concrete])
def test_no_hook_of_an_applications_class_is_called(cls: type[Plain]) -> None:
    made = class_choice.completed(cls, Plain, Direct)
    one = class_choice.become(cls(), made)
    assert one.poll() == "direct"
    assert isinstance(one, cls)
    assert (type(made), made.__name__) == (type(cls), cls.__name__)
    assert Registered.names == ["orders"]
    with pytest.raises(TypeError, match="name"):
        type("Another", (Registered,), {})


def test_a_method_by_its_class_is_that_of_the_object() -> None:
    class Base:
        def poll(self, more: str = "") -> str:
            return "base" + more

        def close(self) -> str:
            return "closed"

    class Ours(Base):
        pass

    class Turned(Ours):
        def poll(self, more: str = "") -> str:
            return f"turned, {super().poll(more)}"

        @classmethod
        def _direct_method(cls, name: str) -> Any:
            return vars(Turned)[name]

    class_choice.lead_to_direct(Ours, ["poll", "_direct_method", "missing"])
    class_choice.lead_to_direct(Ours, ["poll"])
    assert set(vars(Ours)) - set(vars(type("Empty", (), {}))) == {"poll"}
    assert (Ours.poll(Ours(), " 1"), Ours().poll(" 2"), Ours.close(Ours())) == ("base 1", "base 2", "closed")

    class Mixed(Base):
        def poll(self, more: str = "") -> str:
            return f"mixed, {super().poll(more)}"

    class Both(Ours, Mixed):
        pass

    assert (Ours.poll(Both()), Both().poll(" 4")) == ("mixed, base", "mixed, base 4")
    for cls, overrides, base in ((Turned, Turned, Base), (Both, Both, Mixed), (Both, Mixed, Base)):
        assert class_choice.inherited(cls, overrides, "poll") is vars(base)["poll"]
    assert (Ours.poll(Turned(), more=" 3"), Turned().poll()) == ("turned, base 3", "turned, base")


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
