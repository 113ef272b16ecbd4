"""Holds an exception of an application's callback until the inner call has returned its records.

If a callback raises, confluent_kafka drops the records of the current call, and raises the exception only when the
call is over; its close() may then never return. So no exception gets that far: callbacks that librdkafka calls are wrapped,
and the consumer's own call raises the exception as soon as the inner one has ended.

An inner call ends only when no callback waits. Where callbacks take longer than the time between two events, that may be
never. After an exception the other callbacks of the call therefore wait for the next call, as after ``rd_kafka_yield`` in
confluent_kafka's poll(). Rebalance callbacks do not wait, because librdkafka waits for them.

A close() in a callback is held too: the inner call still uses the handle that it would free.

References: ``CallState_end`` and ``stats_cb`` in confluent_kafka.c, ``Consumer_consume`` in Consumer.c.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

__all__ = ["ClosedInCallback", "HeldExceptions", "without_callbacks"]

_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "on_commit")
"""Callbacks that poll, consume and close serve. Not oauth_cb: librdkafka calls it elsewhere, and handles its errors."""


def without_callbacks(settings: Mapping[str, object]) -> dict[str, object]:
    """Returns a consumer's settings for its engine, which lives until the consumer is freed.

    A callback may refer to the consumer, for example as a method of the object that owns it. If the engine had it, the consumer
    would never be freed without close().
    """
    return {name: value for name, value in settings.items() if name not in _CALLBACKS and name != "logger"}


class ClosedInCallback(Exception):  # noqa: N818 - not an error; no application gets it
    """A callback has called close(), and the inner call is over."""


class HeldExceptions:
    """Wraps callbacks; :meth:`come_out` raises the last exception of them. Used under the consumer's gate."""

    def __init__(self) -> None:
        self.closes = False
        """Whether a callback has called close(), which waits for the end of the inner call."""
        self._raised: BaseException | None = None
        self._waiting: deque[Callable[[], object]] = deque()

    def wrap(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a consumer's settings whose callbacks and logger raise nothing and wait after an exception."""
        wrapped = dict(settings)
        for name in _CALLBACKS:
            if callable(settings.get(name)):
                wrapped[name] = self._waits_after_an_exception(settings[name])
        if hasattr(settings.get("logger"), "log"):
            wrapped["logger"] = _Logger(self._waits_after_an_exception(settings["logger"].log))
        return wrapped

    def wrapped(self, callback: Callable[..., object]) -> Callable[..., None]:
        """Returns ``callback`` with held exceptions: the last of several, as in confluent_kafka. It never waits."""

        def called(*args: object, **kwargs: object) -> None:
            self._call(partial(callback, *args, **kwargs))

        return called

    def call_waiting(self) -> bool:
        """Calls the callbacks that wait, until one raises or closes. Returns whether there is something to come out."""
        while self._waiting and self._raised is None and not self.closes:
            self._call(self._waiting.popleft())
        return self._raised is not None or self.closes

    def come_out(self) -> None:
        """Raises the held exception, once. Before that, while ``closes`` is true, ClosedInCallback."""
        if self.closes:
            raise ClosedInCallback
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def finish(self) -> None:
        """Calls all callbacks that wait, because no call follows, and raises the last exception."""
        while self._waiting:
            self._call(self._waiting.popleft())
        self.come_out()

    def _waits_after_an_exception(self, callback: Callable[..., object]) -> Callable[..., None]:
        def called(*args: object, **kwargs: object) -> None:
            call = partial(callback, *args, **kwargs)
            if self._raised is None and not self._waiting and not self.closes:
                self._call(call)
            else:
                self._waiting.append(call)

        return called

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - an interrupt too; it comes out in a moment
            self._raised = error


class _Logger:
    """Receives librdkafka's messages."""

    def __init__(self, log: Callable[..., None]) -> None:
        self.log = log
