from __future__ import annotations

import pytest
from kafka import errors as kafka_errors
from kio.schema.errors import ErrorCode as KioErrorCode

from kafka_remote_client.errors import LocationError
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error, refreshes_metadata


@pytest.mark.parametrize("code", ErrorCode)
def test_kio_has_the_same_name_for_each_code(code: ErrorCode) -> None:
    assert KioErrorCode(code).name == code.name.lower()


@pytest.mark.parametrize("code", sorted(set(ErrorCode) - {ErrorCode.NONE}))
def test_kio_agrees_on_which_codes_are_retriable(code: ErrorCode) -> None:
    assert broker_error(code, "Fetch").retriable is KioErrorCode(code).retriable


def test_codes_that_refresh_metadata_are_retriable() -> None:
    refreshing = {code for code in ErrorCode if refreshes_metadata(code)}
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in refreshing
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED not in refreshing
    assert all(broker_error(code, "Fetch").retriable for code in refreshing)


def test_all_codes_that_refresh_kafka_pythons_metadata_refresh_ours() -> None:
    theirs = {
        kind.errno
        for kind in vars(kafka_errors).values()
        if isinstance(kind, type) and issubclass(kind, kafka_errors.BrokerResponseError) and kind.invalid_metadata
    }
    # 13 is not a code of Fetch answers; the others are not about topics.
    ours = {int(code) for code in ErrorCode if refreshes_metadata(code)}
    assert {code for code in theirs & set(ErrorCode) if code not in ours} <= {ErrorCode.NETWORK_EXCEPTION}


def test_an_error_names_the_request_and_the_code() -> None:
    error = broker_error(29, "Fetch of topic-0")
    assert isinstance(error, LocationError)
    assert (error.code, error.retriable) == (29, False)
    assert str(error) == "Fetch of topic-0: broker answered with error 29 (TOPIC_AUTHORIZATION_FAILED)"


def test_a_code_of_a_newer_broker_is_an_error_too() -> None:
    error = broker_error(999, "Fetch")
    assert (error.code, error.retriable) == (999, False)
    assert "(unknown)" in str(error)
