"""A consumer in a forked child: every call raises, and the parent's consumer is not affected.

librdkafka's threads do not exist in a child. A call into it waits for them forever, and destroying its handle aborts
the process. So in a child the class of each consumer with direct fetch is replaced by one that raises (class_choice.py), and
the object is never freed: its handle, sockets and buffers are the parent's.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import confluent_kafka

from kafka_remote_client.consumer.class_choice import Quiet, become, derived
from kafka_remote_client.errors import ForkedConsumerError

__all__ = ["refuse_after_fork"]

_UPSTREAM_AND_OURS = frozenset({"cimpl", "confluent_kafka", "kafka_remote_client"})
_parents: dict[int, tuple[weakref.ref[Any], Callable[[], object]]] = {}


def refuse_after_fork(consumer: confluent_kafka.Consumer, before_refusal: Callable[[], object]) -> None:
    """Makes ``consumer`` raise for every call in a child of this process. ``before_refusal``: called there once."""
    key = id(consumer)
    _parents[key] = weakref.ref(consumer, lambda _: _parents.pop(key, None)), before_refusal


def _refuse_all() -> None:
    for reference, before_refusal in list(_parents.values()):
        consumer = reference()
        if consumer is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(consumer))
            before_refusal()
            become(consumer, _refusing(type(consumer)))
    _parents.clear()


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ForkedConsumerError


class _Refusing(Quiet):
    """Base before a consumer's own class. The end of a ``with`` block does not raise, to show the block's own error."""

    def __exit__(self, *_: object) -> None:
        """Does nothing."""

    @staticmethod
    def _direct_method(_: str) -> Callable[..., NoReturn]:
        """For ``Consumer.name(self)`` in an application's method."""
        return _refuse


def _refusing(cls: type[Any]) -> type[Any]:
    """Returns a subclass of ``cls`` whose public methods all raise, except those that the application added."""
    methods = {name for base in cls.__mro__ if base.__module__.partition(".")[0] in _UPSTREAM_AND_OURS for name in vars(base)}
    refused = dict.fromkeys([name for name in methods if not name.startswith("_")] + ["__enter__"], _refuse)
    return derived(cls, (_Refusing, cls), {"__module__": cls.__module__, "__doc__": cls.__doc__, **refused})


os.register_at_fork(after_in_child=_refuse_all)
