"""A shim without a tier passes everything through."""

from __future__ import annotations

import asyncio

from kafka_remote_client.shim.broker_strategy import PassThrough
from kafka_remote_client.shim.frames import RequestHead
from tests.support.shim_fakes import FakeAsk, client_request, tagged_fetch


def test_all_requests_go_to_the_broker() -> None:
    nothing = PassThrough()
    head = RequestHead(1, 12, 1)
    assert not nothing.collects(head, 10)
    assert not nothing.claims(head, b"")
    assert not nothing.api_versions
    assert asyncio.run(nothing.answer(client_request(tagged_fetch()), FakeAsk())) is None


def test_repr_hides_the_body_of_a_request() -> None:
    assert "memory" not in repr(client_request(tagged_fetch()))
