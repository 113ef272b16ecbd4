from __future__ import annotations

import pytest

from kafka_remote_client.consumer.topic_filter import TopicFilter
from kafka_remote_client.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "allowed", "refused"),
    [
        (None, ["orders", "^x"], []),
        ("", ["orders"], []),
        (" , ", ["orders"], []),
        ("orders", ["orders"], ["orders-2", "order", "my-orders"]),
        ("orders, payments.eu", ["orders", "payments.eu"], ["payments-eu"]),
        ("^orders", ["orders", "orders-2"], ["my-orders"]),
        (r"^orders\.[0-9]+$,payments", ["orders.1", "payments"], ["orders.x", "orders.1x", "payments2"]),
        ("^a|b", ["a1", "b1"], ["cb"]),
    ],
)
def test_topics_are_named_or_described(text: str | None, allowed: list[str], refused: list[str]) -> None:
    topics = TopicFilter(text)
    assert [topics.allows(topic) for topic in allowed + refused] == [True] * len(allowed) + [False] * len(refused)


def test_what_is_no_expression_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"fetch\.remote\.topics: '\^\(' is not a valid regular expression"):
        TopicFilter("orders,^(")
