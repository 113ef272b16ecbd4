"""Totals by client and topic add up, in bounded memory."""

from __future__ import annotations

from kafka_remote_client.shim.granted_totals import OTHERS, GrantedTotals


def test_adds_up_by_client_and_topic() -> None:
    totals = GrantedTotals()
    for client, topic in (("b", "x"), ("a", "y"), ("a", "x"), ("a", "x")):
        totals.add(client, topic, ranges=2, nbytes=10)
    assert list(totals.snapshot().items()) == [(("a", "x"), (4, 20)), (("a", "y"), (2, 10)), (("b", "x"), (2, 10))]


def test_pairs_over_the_bound_are_counted_together() -> None:
    totals, clients = GrantedTotals(), [f"client-{number:04}" for number in range(1002)]
    for client in (*clients, clients[0]):
        totals.add(client, "x", ranges=1, nbytes=5)
    kept = {(client, "x"): (1, 5) for client in clients[:1000]}
    assert totals.snapshot() == kept | {(clients[0], "x"): (2, 10), OTHERS: (2, 10)}
