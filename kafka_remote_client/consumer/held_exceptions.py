"""What an application's callback raises in the middle of an inner call, held until that call has given its records.

confluent_kafka drops the records that a call has in hand when a callback of that call raises, and raises it only when the
call is over; its close() may then never return. So no exception gets that far: callbacks that librdkafka calls are wrapped,
and what was raised comes out of the consumer's own call as soon as the inner one has ended.

References: ``CallState_end`` in confluent_kafka.c, ``Consumer_consume`` in Consumer.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["HeldExceptions"]

_CALLBACKS = ("error_cb", "stats_cb", "throttle_cb", "on_commit")
"""Served by poll, consume and close. Not oauth_cb: librdkafka calls it elsewhere, and takes its failure for an answer."""


class HeldExceptions:
    """Wraps callbacks; :meth:`come_out` raises what the last of them raised. Used under the consumer's gate."""

    def __init__(self) -> None:
        self._raised: BaseException | None = None

    def wrap(self, settings: dict[str, Any]) -> None:
        """Puts callbacks and a logger that raise nothing in the place of a consumer's own.

        In place: the parts that ask for locations have the same settings, and are to see what changes in them.
        """
        for name in _CALLBACKS:
            if callable(settings.get(name)):
                settings[name] = self.wrapped(settings[name])
        if hasattr(settings.get("logger"), "log"):
            settings["logger"] = _Logger(self.wrapped(settings["logger"].log))

    def wrapped(self, callback: Callable[..., object]) -> Callable[..., None]:
        """``callback``, whose exceptions are held: of several the last one, as confluent_kafka has it."""

        def called(*args: object, **kwargs: object) -> None:
            try:
                callback(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - an interrupt too; it comes out in a moment
                self._raised = error

        return called

    def come_out(self) -> None:
        """Raises what is held, once."""
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised


class _Logger:
    """Receives librdkafka's messages."""

    def __init__(self, log: Callable[..., None]) -> None:
        self.log = log
