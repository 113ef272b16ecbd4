"""Holds an exception of an application's callback until the inner call has returned its records.

If a callback raises, confluent_kafka drops the records of the current call, and raises the exception only when the
call is over; its close() may then never return. So no exception gets that far: callbacks that librdkafka calls are wrapped,
and the consumer's own call raises the exception as soon as the inner one has ended.

References: ``CallState_end`` in confluent_kafka.c, ``Consumer_consume`` in Consumer.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["HeldExceptions"]

_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "on_commit")
"""Callbacks that poll, consume and close serve. Not oauth_cb: librdkafka calls it elsewhere, and handles its errors."""


class HeldExceptions:
    """Wraps callbacks; :meth:`come_out` raises the last exception of them. Used under the consumer's gate."""

    def __init__(self) -> None:
        self._raised: BaseException | None = None

    def wrap(self, settings: dict[str, Any]) -> None:
        """Replaces a consumer's callbacks and logger by ones that raise nothing.

        In place: the parts that ask for locations have the same settings, and are to see what changes in them.
        """
        for name in _CALLBACKS:
            if callable(settings.get(name)):
                settings[name] = self.wrapped(settings[name])
        if hasattr(settings.get("logger"), "log"):
            settings["logger"] = _Logger(self.wrapped(settings["logger"].log))

    def wrapped(self, callback: Callable[..., object]) -> Callable[..., None]:
        """Returns ``callback`` with held exceptions: the last of several, as in confluent_kafka."""

        def called(*args: object, **kwargs: object) -> None:
            try:
                callback(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - an interrupt too; it comes out in a moment
                self._raised = error

        return called

    def come_out(self) -> None:
        """Raises the held exception, once."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised


class _Logger:
    """Receives librdkafka's messages."""

    def __init__(self, log: Callable[..., None]) -> None:
        self.log = log
