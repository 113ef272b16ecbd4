"""The class of a consumer is chosen in its constructor, and again in a forked child. Nothing else assigns ``__class__``.

Why: with direct fetch off, all methods must be confluent_kafka's. Only the constructor knows whether it is
off, because an application's subclass may take any arguments. A consumer cannot be a wrapper around another one either:
applications check ``isinstance``, subclass it, and hand it to confluent_kafka's own classes.

Assumption: an object can change to a subclass that adds methods but no slots. The import tries that on an object of
confluent_kafka's class (:data:`WORKS`). If it fails, or if the environment has ``KAFKA_REMOTE_CLIENT_CLASS_CHOICE=0``,
direct fetch stays off, and a log line says so.

References: Python's data model, "__class__ assignment" (``object_set_class`` in typeobject.c).
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import confluent_kafka

from kafka_remote_client.arguments import switched_on

__all__ = ["WORKS", "allowed", "become", "completed"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_classes: WeakKeyDictionary[type[Any], type[Any]] = WeakKeyDictionary()


def become(one: Any, cls: type[_T]) -> _T:
    """Makes ``one`` an object of ``cls``, a subclass of its class without new slots. Returns it."""
    one.__class__ = cls
    return one  # type: ignore[no-any-return] # its class was changed a line before


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
        _classes[cls] = type(cls.__name__, (cls, direct), namespace)
    return _classes[cls]


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
