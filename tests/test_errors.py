import inspect
import pickle

import attrs
import pytest

from kafka_remote_client import errors
from kafka_remote_client.errors import (
    Action,
    BrokerResponseError,
    ConfigurationError,
    CorruptRecordError,
    DirectFetchError,
    ErrorContext,
    LocationError,
    LocationNotGrantedError,
    MissingExtraError,
    NotAnnouncedError,
    ObjectNotFoundError,
)

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DirectFetchError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_error_has_an_action_and_a_cause(kind: type[DirectFetchError]) -> None:
    assert isinstance(kind.action, Action)
    assert kind.cause
    assert kind.__name__ in errors.__all__
    assert kind.__name__ in (errors.__doc__ or "")


def test_causes_are_distinct() -> None:
    causes = [kind.cause for kind in KINDS if kind is not MissingExtraError]
    assert len(causes) == len(set(causes))
    assert MissingExtraError.cause == ConfigurationError.cause


def test_the_innermost_context_is_kept() -> None:
    error = LocationError("gone").with_context(host="shim:9192", attempt=2)
    assert error.with_context(host="other:1", topic="orders", partition=0, elapsed_seconds=1.5) is error
    assert error.context == ErrorContext(topic="orders", partition=0, host="shim:9192", attempt=2, elapsed_seconds=1.5)
    assert DirectFetchError("another").context == ErrorContext()


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(ErrorContext)])
def test_each_field_of_the_context_is_an_attribute_of_the_error(name: str) -> None:
    error = DirectFetchError("gone")
    assert getattr(error, name) is None
    assert getattr(error.with_context(**{name: "known"}), name) == "known"


def test_the_context_is_one_line_of_the_known_fields() -> None:
    assert str(ErrorContext()) == ""
    known = ErrorContext(topic="orders", partition=0, byte_range=(0, 512), attempt=2, elapsed_seconds=0.25)
    assert str(known) == "topic=orders partition=0 byte_range=[0, 512) attempt=2 elapsed_seconds=0.250"


def test_errors_keep_their_context_through_pickle() -> None:
    error = pickle.loads(pickle.dumps(LocationError("gone").with_context(host="shim:9192")))
    assert (str(error), error.host) == ("gone", "shim:9192")


def test_errors_with_a_fixed_place_include_it() -> None:
    assert NotAnnouncedError("shim:1").host == "shim:1"
    assert CorruptRecordError("bad", offset=7).offset == 7
    assert ObjectNotFoundError("a/b.log").object_key == "a/b.log"
    refused = LocationNotGrantedError("orders", 0, 7)
    assert (refused.topic, refused.partition, refused.offset) == ("orders", 0, 7)


def test_a_brokers_answer_keeps_its_code() -> None:
    error = BrokerResponseError(29)
    assert (error.code, error.retriable, str(error)) == (29, False, "broker answered with error code 29")
    assert str(BrokerResponseError(3, "no such topic", retriable=True)) == "no such topic"
