"""The class of a consumer is chosen in its constructor, and again in a forked child. Nothing else assigns ``__class__``.

Why: with direct fetch off, all methods must be confluent_kafka's. Only the constructor knows whether it is
off, because an application's subclass may take any arguments. A consumer cannot be a wrapper around another one either:
applications check ``isinstance``, subclass it, and hand it to confluent_kafka's own classes.

The new class of an application's subclass is made without the hooks of that class, which expect a class statement of the
application: ``__init_subclass__``, and the metaclass's ``__new__`` and ``__init__``.

``Consumer.poll(self)`` in such a subclass names a class that has upstream's methods only. So with the first consumer that has
direct fetch on, that class gets entries that find the method by the consumer (:func:`lead_to_direct`). An entry is not in the
way of ``consumer.poll()`` or ``super().poll()``: there it gives upstream's own method.

Assumption: an object can change to a subclass that adds methods but no slots. The import tries that on an object of
confluent_kafka's class (:data:`WORKS`). If it fails, or if the environment has ``KAFKA_REMOTE_CLIENT_CLASS_CHOICE=0``,
direct fetch stays off, and a log line says so.

References: Python's data model, "__class__ assignment" (``object_set_class`` in typeobject.c), "Customizing class creation",
"Invoking Descriptors".
"""

from __future__ import annotations

import functools
import logging
from abc import ABCMeta
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import confluent_kafka

from kafka_remote_client.arguments import switched_on

__all__ = ["WORKS", "Quiet", "allowed", "become", "completed", "derived", "inherited", "lead_to_direct"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_classes: WeakKeyDictionary[type[Any], type[Any]] = WeakKeyDictionary()


def become(one: Any, cls: type[_T]) -> _T:
    """Makes ``one`` an object of ``cls``, a subclass of its class without new slots. Returns it."""
    one.__class__ = cls
    return one  # type: ignore[no-any-return] # its class was changed a line before


class Quiet:
    """Base before an application's class, whose ``__init_subclass__`` is not called for a class of this package."""

    def __init_subclass__(cls) -> None:
        """Does nothing."""


def completed(cls: type[Any], plain: type[Any], direct: type[Any]) -> type[Any]:
    """Returns ``cls``, which is ``plain`` or a subclass of it, with ``direct`` between its own methods and those of ``plain``.

    It is the same class each time. So an application's subclass reaches the methods of ``direct`` with ``super()``.
    """
    if issubclass(cls, direct):
        return cls
    if cls is plain:
        return direct
    if cls not in _classes:
        namespace = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        _classes[cls] = derived(cls, (Quiet, cls, direct), namespace)
    return _classes[cls]


def derived(cls: type[Any], bases: tuple[type[Any], ...], namespace: dict[str, Any]) -> type[Any]:
    """Returns a class with the name and the metaclass of ``cls``, without a call of an application's metaclass."""
    create: Callable[..., type[Any]] = (ABCMeta if issubclass(type(cls), ABCMeta) else type).__new__
    return create(type(cls), cls.__name__, bases, namespace)


class _MethodOfConsumer:
    """The entry in ``owner`` of a method of its bases. See the module."""

    def __init__(self, owner: type[Any], name: str) -> None:
        self._owner = owner
        self._name = name

        @functools.wraps(getattr(owner, name))
        def call(consumer: Any, /, *args: Any, **kwargs: Any) -> Any:
            method_of = getattr(consumer, "_direct_method", None)
            if method_of is None:
                return getattr(super(owner, consumer), name)(*args, **kwargs)
            return method_of(name)(consumer, *args, **kwargs)

        self._by_class = call

    def __get__(self, consumer: Any, _: type[Any] | None = None) -> Any:
        return self._by_class if consumer is None else getattr(super(self._owner, consumer), self._name)


def lead_to_direct(cls: type[Any], names: Iterable[str]) -> None:
    """Gives ``cls`` an entry for these methods of its bases, which calls a consumer's ``_direct_method(name)`` instead."""
    for name in set(names) - vars(cls).keys():
        if any(name in vars(base) for base in cls.__mro__[1:-1]):
            setattr(cls, name, _MethodOfConsumer(cls, name))


def inherited(cls: type[Any], overrides: type[Any], name: str) -> Any:
    """Returns the method that an object of ``cls`` would have if ``overrides`` did not override it, past the entries."""
    later = cls.__mro__[cls.__mro__.index(overrides) + 1 :]
    base = next(base for base in later if name in vars(base) and not isinstance(vars(base)[name], _MethodOfConsumer))
    return getattr(base, name)


def _works() -> bool:
    """Tries it, on an object without a call of confluent_kafka's constructor."""

    class Before(confluent_kafka.Consumer):
        """As the constructor finds it."""

    class After(Before):
        """As it leaves it."""

    try:
        return type(become(Before.__new__(Before), After)) is After
    except TypeError:
        return False


WORKS = _works()
"""Whether an object can change to a subclass."""


def allowed() -> bool:
    """Whether the class of a consumer with direct fetch on can change. A log line says so if it cannot."""
    works = WORKS and switched_on("KAFKA_REMOTE_CLIENT_CLASS_CHOICE")
    if not works:
        _log.warning(
            "direct fetch is off: the class of a consumer cannot be chosen in its constructor, or "
            "KAFKA_REMOTE_CLIENT_CLASS_CHOICE=0 disables it"
        )
    return works
