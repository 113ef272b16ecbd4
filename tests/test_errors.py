import inspect

import pytest

from kafka_remote_client import errors
from kafka_remote_client.errors import Action, BrokerResponseError, DirectFetchError

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, DirectFetchError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_says_what_to_do_and_what_to_count(kind: type[DirectFetchError]) -> None:
    assert isinstance(kind.action, Action)
    assert kind.cause
    assert kind.__name__ in errors.__all__
    assert kind.__name__ in (errors.__doc__ or "")


def test_causes_are_told_apart() -> None:
    causes = [kind.cause for kind in KINDS]
    assert len(causes) == len(set(causes))


def test_a_brokers_answer_keeps_its_code() -> None:
    error = BrokerResponseError(29)
    assert (error.code, error.retriable, str(error)) == (29, False, "broker answered with error code 29")
    assert str(BrokerResponseError(3, "no such topic", retriable=True)) == "no such topic"
