"""Whether a consumer's connections authenticate, and what watches its tokens."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.sasl_settings import authenticator, with_watched_oauth, with_watched_tokens
from tests.support.locations import ManualClock

CLOCK = ManualClock()


@pytest.mark.parametrize("protocol", [None, "plaintext", "SSL"])
def test_without_sasl_there_is_no_authentication(protocol: str | None) -> None:
    assert authenticator({"security.protocol": protocol}, CLOCK) is None


def test_an_unknown_protocol_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown security\.protocol: sasl_udp"):
        authenticator({"security.protocol": "SASL_UDP", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}, CLOCK)


def test_settings_without_a_callback_stay_as_they_are() -> None:
    settings = {"group.id": "g", "oauth_cb": "no callable"}
    assert with_watched_oauth(settings, ManualClock()) == settings
    assert with_watched_tokens(settings) == settings
