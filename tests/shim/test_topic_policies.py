"""What a topic's policy permits."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.topic_policies import TopicPolicy, topic_policies


@pytest.mark.parametrize(
    ("grant", "whole_objects", "whole_object_urls", "permitted"),
    [
        ("never", False, False, False),
        ("never", True, True, False),
        ("range", False, False, True),
        ("range", True, True, False),
        ("whole-object", True, False, True),
        ("whole-object", False, False, True),
        (None, False, False, True),
        (None, True, False, False),
        (None, True, True, True),
    ],
)
def test_a_policy_permits_urls_or_not(grant: str | None, whole_objects: bool, whole_object_urls: bool, permitted: bool) -> None:
    policy = TopicPolicy(grant)
    assert policy.permits(whole_objects=whole_objects, whole_object_urls=whole_object_urls) is permitted


def test_policies_are_read_from_text_and_from_values() -> None:
    made = topic_policies({"a.grant": "never", "b.url_ttl": "30", "b.max_grant_bytes": "65536", "c.url_ttl": 2.5})
    assert made.of("a") == TopicPolicy("never")
    assert made.of("b") == TopicPolicy(url_ttl=30, max_grant_bytes=65_536)
    assert made.of("c") == TopicPolicy(url_ttl=2.5)
    assert made.of("d") == TopicPolicy()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a.grant": "sometimes"}, "must be never, range or whole-object"),
        ({"a.url_ttl": "long"}, "a.url_ttl must be a number"),
        ({"a.url_ttl": 901}, "between 1 and 900"),
        ({"a.url_ttl": True}, "between 1 and 900"),
        ({"a.max_grant_bytes": 1}, "at least 65536"),
        ({"a.max_grant_bytes": "1.5"}, "a.max_grant_bytes must be a whole number"),
        ({"a.colour": 1}, "topic_policies: 'a.colour'"),
    ],
)
def test_an_invalid_policy_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        topic_policies(given)
