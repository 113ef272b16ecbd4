"""A client is admitted when its broker has answered; before that, it may send little."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, decode_request, encode_response
from kafka_remote_client.shim.client_admission import (
    MAX_BYTES_BEFORE,
    MAX_REQUESTS_BEFORE,
    QUESTION,
    QUESTION_VERSION,
    ClientAdmission,
    Entry,
)
from kafka_remote_client.shim.frames import RequestHead

BEFORE = [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
SERVED = encode_response(MetadataResponse((MetadataBroker(1, "broker", 9092),), ()), QUESTION_VERSION)
LARGE = MAX_BYTES_BEFORE + 1


def entry(admission: ClientAdmission, key: int, length: int = 100, *, collected: bool = False) -> Entry:
    return admission.entry(RequestHead(key, 0, 1), length, collected=collected)


@pytest.mark.parametrize("key", BEFORE)
def test_requests_for_versions_and_sasl_admit_no_client(key: int) -> None:
    admission = ClientAdmission()
    assert entry(admission, key, MAX_BYTES_BEFORE) is Entry.PASSES
    assert entry(admission, ApiKey.METADATA) is Entry.ASK_FIRST, "they asked nothing"
    assert not admission.admitted


@pytest.mark.parametrize("key", BEFORE)
def test_large_requests_for_versions_and_sasl_end_the_connection(key: int) -> None:
    admission = ClientAdmission()
    with pytest.raises(ProtocolError, match="before authentication exceeds 65536"):
        entry(admission, key, LARGE)
    entry(admission, ApiKey.METADATA)
    with pytest.raises(ProtocolError):
        entry(admission, key, LARGE)
    admission.answered(SERVED)
    assert entry(admission, key, LARGE) is Entry.PASSES


@pytest.mark.parametrize("key", BEFORE)
def test_one_request_too_many_before_admission_ends_the_connection(key: int) -> None:
    admission = ClientAdmission()
    for _ in range(MAX_REQUESTS_BEFORE):
        assert entry(admission, key) is Entry.PASSES
    with pytest.raises(ProtocolError, match="more than 64 requests before authentication"):
        entry(admission, key)
    entry(admission, ApiKey.METADATA)
    admission.answered(SERVED)
    for _ in range(2 * MAX_REQUESTS_BEFORE):
        assert entry(admission, key) is Entry.PASSES, "re-authentication has no such limit"


def test_the_probe_precedes_the_first_other_request_once() -> None:
    admission = ClientAdmission()
    assert entry(admission, ApiKey.PRODUCE, MAX_BYTES_BEFORE) is Entry.ASK_FIRST
    assert entry(admission, ApiKey.PRODUCE) is Entry.PASSES
    admission.answered(SERVED)
    assert admission.admitted
    assert entry(admission, ApiKey.PRODUCE, LARGE) is Entry.PASSES


@pytest.mark.parametrize(("length", "collected"), [(LARGE, False), (100, True)])
def test_large_and_collected_requests_wait_for_the_answer(length: int, collected: bool) -> None:
    admission = ClientAdmission()
    assert entry(admission, ApiKey.FETCH, length, collected=collected) is Entry.ASK_AND_WAIT
    assert entry(admission, ApiKey.FETCH, length, collected=collected) is Entry.WAITS
    admission.answered(SERVED)
    assert entry(admission, ApiKey.FETCH, length, collected=collected) is Entry.PASSES


def test_client_that_asked_for_versions_alone_is_asked_about_once() -> None:
    admission = ClientAdmission()
    assert not admission.asks_late(), "it has asked for nothing"
    entry(admission, ApiKey.API_VERSIONS)
    entry(admission, ApiKey.API_VERSIONS)
    assert admission.asks_late()
    assert not admission.asks_late()
    assert entry(admission, ApiKey.METADATA) is Entry.PASSES, "it is asked about already"
    admission.answered(encode_response(MetadataResponse((), ()), QUESTION_VERSION))
    entry(admission, ApiKey.API_VERSIONS)
    assert not admission.asks_late()


@pytest.mark.parametrize(("times", "asks"), [(4, True), (5, False)])
def test_client_that_asks_for_versions_often_is_not_asked_about(times: int, asks: bool) -> None:
    """It is not an unused connection of an application."""
    admission = ClientAdmission()
    for _ in range(times):
        entry(admission, ApiKey.API_VERSIONS)
    assert admission.asks_late() is asks
    assert not admission.asks_late()


@pytest.mark.parametrize("key", [ApiKey.SASL_HANDSHAKE, ApiKey.METADATA])
def test_client_that_asked_for_more_than_versions_is_not_asked_about_late(key: int) -> None:
    admission = ClientAdmission()
    for asked in (ApiKey.API_VERSIONS, key, ApiKey.API_VERSIONS):
        entry(admission, asked)
    assert not admission.asks_late()


@pytest.mark.parametrize("key", BEFORE)
def test_requests_for_versions_and_sasl_set_up_a_connection_at_any_time(key: int) -> None:
    admission = ClientAdmission()
    assert admission.setting_up, "it has sent nothing"
    entry(admission, ApiKey.METADATA)
    assert admission.setting_up, "the broker has not answered"
    admission.answered(SERVED)
    assert not admission.setting_up
    entry(admission, key)
    assert admission.setting_up
    assert admission.admitted
    entry(admission, ApiKey.FETCH)
    assert not admission.setting_up


def test_the_probe_names_no_topic_and_creates_none() -> None:
    asked = decode_request(QUESTION, QUESTION_VERSION)
    assert asked.topics == ()
    assert not asked.allow_auto_topic_creation


def test_an_answer_without_brokers_admits_no_client() -> None:
    admission = ClientAdmission()
    entry(admission, ApiKey.METADATA)
    admission.answered(encode_response(MetadataResponse((), ()), QUESTION_VERSION))
    assert not admission.admitted
    assert entry(admission, ApiKey.METADATA) is Entry.ASK_FIRST, "it is asked again"


def test_an_answer_that_does_not_parse_raises() -> None:
    with pytest.raises(ProtocolError):
        ClientAdmission().answered(b"\0")
