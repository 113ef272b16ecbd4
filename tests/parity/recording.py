"""Records all that an application sees of a consumer of any class, in order, as values that can be compared.

A scenario calls the consumer's own methods on a :class:`Recording`. Each result, each exception, each message and each callback
with its arguments and its serving call is an event. ``read`` and ``read_to_ends`` deliver messages: how many calls that takes
is not part of the contract, so these calls are no events. Messages are recorded completely, and errors with their text, without
what differs between two consumers: addresses, the group, and times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client.clock import Deadline, SystemClock
from tests.support.waiting import wait_until

__all__ = ["PATIENCE_SECONDS", "Event", "Recording", "plain_value"]

PATIENCE_SECONDS = 60.0

Event: TypeAlias = tuple[Any, ...]
Make: TypeAlias = Callable[[dict[str, Any]], confluent_kafka.Consumer]
Take: TypeAlias = Callable[[confluent_kafka.Consumer, int], list[Message]]

_MANY = 500
_CALLBACKS = ("error_cb", "throttle_cb", "on_commit")
_OWN = re.compile(r"127\.0\.0\.1:\d+(?:/\w+)?|parity-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+(?:\.\d+)?ms")
"""In the text of an error: an address, a group, and a time."""


def plain_value(value: Any) -> Any:
    """Returns what can be seen of a result, an argument or an error, as values that compare."""
    if isinstance(value, Message):
        return _message(value)
    if isinstance(value, TopicPartition):
        error = plain_value(value.error)
        return (value.topic, value.partition, value.offset, value.leader_epoch, value.metadata, error)
    if isinstance(value, KafkaError):
        text = _OWN.sub("...", value.str())
        return ("KafkaError", value.code(), value.name(), text, value.retriable(), value.fatal(), value.txn_requires_abort())
    if isinstance(value, KafkaException):
        return (type(value).__name__, *map(plain_value, value.args))
    if isinstance(value, (TypeError, AttributeError)):
        return type(value).__name__  # Python's own text has the names of functions and classes
    if isinstance(value, BaseException):
        return (type(value).__name__, str(value))
    if isinstance(value, confluent_kafka.Consumer):
        return "a consumer"
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return value


def _message(message: Message) -> Event:
    error = message.error()
    place = (message.topic(), message.partition(), message.offset(), message.leader_epoch())
    if error is not None:
        kind = "end" if error.code() == KafkaError._PARTITION_EOF else "error"
        return (kind, *place, plain_value(error))
    content = (message.key(), message.value(), message.headers(), message.timestamp())
    return ("record", *place, *content, message.latency(), len(message), type(message).__name__)


def by_poll(consumer: confluent_kafka.Consumer, _: int) -> list[Message]:
    message = consumer.poll(0.2)
    return [] if message is None else [message]


def by_consume(consumer: confluent_kafka.Consumer, limit: int) -> list[Message]:
    return consumer.consume(limit, 0.1)


class Recording:
    """See the module. ``inner`` is the consumer itself; its calls are not recorded."""

    def __init__(self, make: Make, settings: dict[str, Any], events: list[Event], take: Take = by_poll) -> None:
        self.events = events
        self._take = take
        self._during = "__init__"
        callbacks = {name: self._callback(name, settings.get(name)) for name in _CALLBACKS if name in settings}
        self.inner = make({**settings, **callbacks})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Returns the consumer's method of that name; its result is an event."""

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = self._called(name, *args, **kwargs)
            self.events.append((name, plain_value(answer)))
            return answer

        return call

    def comes_to_answer(self, expected: Any, name: str, *args: Any) -> None:
        """Calls a method until it returns ``expected``: librdkafka finishes some calls after they have returned."""
        wait_until(lambda: plain_value(self._called(name, *args)) == expected, f"{name}{args}", seconds=PATIENCE_SECONDS)
        self.events.append((name, expected))

    def refuses(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Calls a method that must raise; the error is an event."""
        try:
            answer = self._called(name, *args, **kwargs)
        except Exception as error:
            self.events.append((f"{name} raised", plain_value(error)))
        else:
            raise AssertionError(f"{name}{args} answered {plain_value(answer)!r}")

    def attempts(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Calls a method that may raise; its result or its error is an event."""
        try:
            self.__getattr__(name)(*args, **kwargs)
        except Exception as error:
            self.events.append((f"{name} raised", plain_value(error)))

    def _called(self, name: str, *args: Any, **kwargs: Any) -> Any:
        outer, self._during = self._during, name
        try:
            return getattr(self.inner, name)(*args, **kwargs)
        finally:
            self._during = outer

    def subscribe(self, topics: list[str], **callbacks: Callable[..., object] | None) -> None:
        """Subscribes as the consumer does; each callback is an event, before the given one is called with this recording."""
        made = {name: self._callback(name, callbacks.get(name)) for name in ("on_assign", "on_revoke", "on_lost")}
        self._called("subscribe", topics, **made)
        self.events.append(("subscribe", None))

    def _callback(self, name: str, given: Any) -> Callable[..., Any]:
        def seen(*args: Any) -> None:
            told = [sorted(map(plain_value, arg)) if isinstance(arg, list) else plain_value(arg) for arg in args]
            if told and args[0] is self.inner:
                told[0] = "this consumer"
            during = "delivery" if self._during in ("poll", "consume") else self._during
            self.events.append((name, *told, f"during {during}"))
            if callable(given):
                given(*(self if arg is self.inner else arg for arg in args))

        return seen

    # -- delivery ----------------------------------------------------------------------------------------------------------

    def read(self, count: int) -> list[Message]:
        """Reads the next ``count`` messages of any kind."""
        return self._until(lambda messages: len(messages) >= count, lambda messages: count - len(messages))

    def read_to_ends(self, partitions: int = 1) -> list[Message]:
        """Reads until so many ends of partitions are delivered."""
        return self._until(lambda messages: sum(map(is_end, messages)) >= partitions)

    def read_until(self, done: Callable[[], bool]) -> list[Message]:
        """Reads until ``done``."""
        return self._until(lambda _: done())

    def _until(
        self, done: Callable[[list[Message]], bool], limit: Callable[[list[Message]], int] = lambda _: _MANY
    ) -> list[Message]:
        deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
        messages: list[Message] = []
        outer, self._during = self._during, "poll"
        try:
            while not done(messages):
                if deadline.expired():
                    raise AssertionError(
                        f"{len(messages)} messages in {PATIENCE_SECONDS} s, the last events: {self.events[-3:]}"
                    )
                for message in self._take(self.inner, limit(messages)):
                    messages.append(message)
                    self.events.append(plain_value(message))
        finally:
            self._during = outer
        return messages

    def hears_nothing(self, calls: int = 2) -> None:
        """A few delivering calls must return nothing."""
        for _ in range(calls):
            for message in self._take(self.inner, 10):
                self.events.append(("uncalled-for", plain_value(message)))


def is_end(message: Message) -> bool:
    """Returns whether a message is the end of its partition."""
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF
