"""S21, F59: with any answer of a shim the application gets the right records, late at worst, and no other host a request."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import attrs
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import AbortedTransaction, ByteRange, EpochEntry, GrantedRange
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import SegmentGrant
from kafka_remote_client.protocol.headers import encode_response_header, frame
from kafka_remote_client.shim.http_server import ConnectionListener
from tests.support.embedded_topics import (
    Row,
    direct_settings,
    fallbacks,
    fill_topic,
    filled_cluster,
    from_store,
    plain_rows,
    read_to_ends,
    small_cluster,
    take,
    tiers,
)
from tests.support.hostile_shim import GrantChange, HostileShim
from tests.support.scripted_peer import PeerConnection, ScriptedPeer

pytestmark = pytest.mark.embedded

TOPIC = "t"
COUNT = 400
FLIPS = 80


cluster = filled_cluster(TOPIC, COUNT, max_grant_bytes=2_000)


@pytest.fixture(scope="module")
def expected(cluster: EmbeddedCluster) -> list[Row]:
    return plain_rows(cluster, TOPIC)


@pytest.fixture
def shim(cluster: EmbeddedCluster) -> Iterator[HostileShim]:
    with hostile_shim(cluster) as made:
        yield made


@contextmanager
def hostile_shim(cluster: EmbeddedCluster) -> Iterator[HostileShim]:
    truth = BrokerLocationSource(cluster.bootstrap_servers, client_id="liar", clock=SystemClock(), connect_timeout=60)
    with closing(truth):
        yield HostileShim(truth, tiers(cluster, TOPIC))


def settings(cluster: EmbeddedCluster, peer: ScriptedPeer, **more: object) -> dict[str, Any]:
    return direct_settings(
        cluster,
        fetch_remote_bootstrap_servers=peer.address,
        fetch_remote_fallback_backoff_ms=600_000,
        fetch_remote_breaker_failures=1_000,
        **more,
    )


def read_all(cluster: EmbeddedCluster, shim: HostileShim) -> tuple[list[Row], dict[str, int], int]:
    """Returns all rows, the causes of fallbacks, and the number of records from the store."""
    with ScriptedPeer(shim.script()) as peer:
        shim.leader = (peer.host, peer.port)
        with Consumer(settings(cluster, peer)) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            rows = read_to_ends(consumer)[TOPIC, 0]
            return rows, fallbacks(consumer), from_store(consumer)


def test_true_answers_passed_on_by_a_shim_are_used(cluster: EmbeddedCluster, shim: HostileShim, expected: list[Row]) -> None:
    rows, fell_back, direct = read_all(cluster, shim)
    assert rows == expected
    assert (fell_back, direct > 100) == ({}, True)


def each_range(change: Callable[[GrantedRange], GrantedRange]) -> GrantChange:
    return lambda grant, data: (attrs.evolve(grant, ranges=tuple(map(change, grant.ranges))), data)


def of_grant(**changes: Any) -> GrantChange:
    """Changes fields of the grant; a callable value gets the grant."""

    def changed(grant: SegmentGrant, data: fetch.PartitionData) -> tuple[SegmentGrant, fetch.PartitionData]:
        values = {name: value(grant) if callable(value) else value for name, value in changes.items()}
        return attrs.evolve(grant, **values), data

    return changed


def of_answer(**changes: Any) -> GrantChange:
    return lambda grant, data: (grant, attrs.evolve(data, **changes))


def with_url(change: Callable[[str], str]) -> GrantChange:
    def changed(granted: GrantedRange) -> GrantedRange:
        location = LocationMetadata.decode(granted.custom_metadata)
        return attrs.evolve(granted, custom_metadata=attrs.evolve(location, url=change(str(location.url))).encode())

    return each_range(changed)


def moved(start: int, end: int) -> GrantChange:
    def changed(granted: GrantedRange) -> GrantedRange:
        return attrs.evolve(granted, range=ByteRange(max(0, granted.range.start + start), granted.range.end + end))

    return each_range(changed)


GRANT_CHANGES: dict[str, GrantChange] = {
    "ranges-shifted": moved(1, 1),
    "ranges-longer": moved(0, 7),
    "ranges-shorter": moved(0, -7),
    "ranges-twice": of_grant(ranges=lambda grant: grant.ranges * 2),
    "range-huge": of_grant(ranges=lambda grant: (attrs.evolve(grant.ranges[0], range=ByteRange(0, (1 << 31) - 1)),)),
    "segment-size-huge": of_grant(segment_size=(1 << 31) - 1),
    "segment-size-one": of_grant(segment_size=1),
    "start-offset-later": of_grant(start_offset=lambda grant: grant.end_offset),
    "start-offset-earlier": of_grant(start_offset=lambda grant: grant.start_offset - 1),
    "end-offset-earlier": of_grant(end_offset=lambda grant: grant.start_offset),
    "next-offset-later": of_grant(next_offset=lambda grant: grant.next_offset + 1),
    "next-offset-far": of_grant(next_offset=1 << 40),
    "next-offset-back": of_grant(next_offset=lambda grant: grant.start_offset),
    "lineage-of-another-epoch": of_grant(leader_epochs=(EpochEntry(77, 0),)),
    "lineage-that-begins-later": of_grant(leader_epochs=lambda grant: (EpochEntry(0, grant.next_offset),)),
    "format-unknown": of_grant(format="Iceberg"),
    "another-segments-id": of_grant(segment_id=UUID(int=3)),
    "expired": of_grant(expires_in_ms=0),
    "expires-in-the-past": of_grant(expires_in_ms=-(1 << 40)),
    "another-partition": of_answer(partition_index=2),
    "records-beside-the-grant": of_answer(records=b"\0" * 200),
    "high-watermark-below": of_answer(high_watermark=1, last_stable_offset=1),
    "log-start-above": of_answer(log_start_offset=1 << 40),
    "last-stable-offset-below": of_answer(last_stable_offset=0),
    "aborted-transactions-unknown": of_answer(aborted_transactions=None),
    "aborted-transactions-many": of_answer(aborted_transactions=tuple(AbortedTransaction(n, -n) for n in range(500))),
    "error-code-unknown": of_answer(error_code=12_345),
    "out-of-range": of_answer(error_code=1),
    "url-with-the-signature-of-another": with_url(lambda url: url.replace(".log", ".index")),
    "url-without-signature": with_url(lambda url: url.partition("?")[0]),
    "url-empty": with_url(lambda _: ""),
    "url-of-a-file": with_url(lambda _: "file:///etc/passwd"),
    "url-with-a-line-break": with_url(lambda url: url + "\r\nX-Evil: 1"),
    "custom-metadata-garbage": each_range(lambda granted: attrs.evolve(granted, custom_metadata=b"\xff" * 30)),
    "custom-metadata-empty": each_range(lambda granted: attrs.evolve(granted, custom_metadata=b"")),
    "header-that-smuggles": each_range(
        lambda granted: attrs.evolve(
            granted, custom_metadata=LocationMetadata(url="http://x/", signed_headers=(("host", "evil"),)).encode()
        )
    ),
}


@pytest.mark.fault("F59", "S21")
@pytest.mark.parametrize("change", GRANT_CHANGES)
def test_s21_no_false_grant_changes_a_record(
    cluster: EmbeddedCluster, shim: HostileShim, expected: list[Row], change: str
) -> None:
    shim.change_grant = GRANT_CHANGES[change]
    rows, _, _ = read_all(cluster, shim)
    assert rows == expected
    assert shim.changed_answers > 0


@pytest.mark.fault("S21")
def test_s21_ranges_out_of_order_change_no_record(tmp_path: Path) -> None:
    with small_cluster(tmp_path, segment_bytes=16_000, range_bytes=1_000, max_grant_bytes=16_000) as own:
        fill_topic(own, TOPIC, COUNT)
        with hostile_shim(own) as shim:
            shim.change_grant = of_grant(ranges=lambda grant: (grant.ranges[0], *grant.ranges[:0:-1]))
            rows, _, _ = read_all(own, shim)
        assert rows == plain_rows(own, TOPIC)
        assert shim.changed_answers > 0


@pytest.mark.fault("S21")
def test_s21_other_hosts_get_no_request(cluster: EmbeddedCluster, shim: HostileShim, expected: list[Row]) -> None:
    listener = ConnectionListener(socket.socket.close)
    listener.start()
    host, port = listener.address[:2]
    shim.change_grant = with_url(lambda url: f"http://{host}:{port}/{url.partition('//')[2].partition('/')[2]}")
    rows, fell_back, direct = read_all(cluster, shim)
    listener.stop()
    assert (rows == expected, direct) == (True, 0)
    assert fell_back == {"forbidden-location": 1}
    assert listener.connections == 0


@pytest.mark.fault("S21")
@pytest.mark.parametrize(("suffix", "cause"), [(".index", "range-not-satisfiable"), (".nothing", "not-found")])
def test_s21_signed_urls_of_other_objects_change_no_record(
    cluster: EmbeddedCluster, shim: HostileShim, expected: list[Row], suffix: str, cause: str
) -> None:
    assert cluster._origin is not None
    signer = cluster._origin.signer

    def signed(granted: GrantedRange) -> GrantedRange:
        location = LocationMetadata.decode(granted.custom_metadata)
        key = unquote(urlsplit(str(location.url)).path)[1:].removesuffix(".log")
        url = signer.sign(key + suffix, granted.range, 60).url
        return attrs.evolve(granted, custom_metadata=attrs.evolve(location, url=url).encode())

    shim.change_grant = each_range(signed)
    rows, fell_back, direct = read_all(cluster, shim)
    assert (rows == expected, direct) == (True, 0)
    assert set(fell_back) == {cause}


@pytest.mark.fault("S21")
def test_s21_bytes_of_another_segment_are_refused(cluster: EmbeddedCluster, shim: HostileShim, expected: list[Row]) -> None:
    def swapped(grant: SegmentGrant, data: fetch.PartitionData) -> tuple[SegmentGrant, fetch.PartitionData]:
        other = shim.located(0 if grant.start_offset else grant.end_offset + 1)
        location = other.ranges[0].custom_metadata
        return attrs.evolve(
            grant,
            ranges=(GrantedRange(other.ranges[0].range, location),),
            segment_size=max(grant.segment_size, other.metadata.segment_size_in_bytes),
        ), data

    shim.change_grant = swapped
    rows, fell_back, direct = read_all(cluster, shim)
    assert (rows == expected, direct) == (True, 0)
    assert sum(fell_back.values()) == 1


@pytest.mark.fault("F59", "S21")
def test_s21_any_flipped_bit_of_an_answer_costs_speed_only(
    cluster: EmbeddedCluster, shim: HostileShim, expected: list[Row]
) -> None:
    dice = random.Random(21)

    def flipped(answer: bytes) -> bytes:
        changed = bytearray(answer)
        place = dice.randrange(8, len(changed))  # the field before it is the throttle time, for which the client waits
        changed[place] ^= 1 << dice.randrange(8)
        return bytes(changed)

    shim.change_body = flipped
    with ScriptedPeer(shim.script()) as peer:
        shim.leader = (peer.host, peer.port)
        with Consumer(settings(cluster, peer)) as consumer:
            for n in range(FLIPS):
                start = n * 7 % 250
                consumer.assign([TopicPartition(TOPIC, 0, start)])
                assert take(consumer, 25) == expected[start : start + 25]
            assert sum(fallbacks(consumer).values()) > FLIPS // 3
    assert shim.changed_answers >= FLIPS


def garbage(connection: PeerConnection) -> None:
    connection.receive()
    connection.send(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
    connection.hold()


def endless(connection: PeerConnection) -> None:
    connection.receive()
    connection.send(b"\x7f\xff\xff\xff" + b"\0" * 100)
    connection.hold()


def silent(connection: PeerConnection) -> None:
    connection.hold()


def hung_up(connection: PeerConnection) -> None:
    connection.receive()


def another_request(connection: PeerConnection) -> None:
    header, _ = connection.receive()
    connection.send(frame(encode_response_header(header.api_key, header.api_version, header.correlation_id + 1), b"\0" * 40))
    connection.hold()


@pytest.mark.fault("F59", "F57")
@pytest.mark.parametrize("script", [garbage, endless, silent, hung_up, another_request], ids=lambda one: one.__name__)
def test_an_invalid_answer_sends_all_partitions_to_the_broker(
    cluster: EmbeddedCluster, expected: list[Row], script: Callable[[PeerConnection], None]
) -> None:
    with ScriptedPeer(script) as peer, Consumer(settings(cluster, peer, fetch_remote_location_timeout_ms=300)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert read_to_ends(consumer)[TOPIC, 0] == expected
        assert from_store(consumer) == 0
        assert peer.accepted > 0


@pytest.mark.fault("F59")
def test_an_answer_to_another_request_costs_speed_only(
    cluster: EmbeddedCluster, shim: HostileShim, expected: list[Row], tmp_path: Path
) -> None:
    honest = shim.script()
    seen = 0

    def confused(connection: PeerConnection) -> None:
        nonlocal seen
        reply = connection.reply

        def other(header: Any, body: bytes) -> None:
            nonlocal seen
            if header.api_key == 1 and len(shim.fetches) > 1:
                seen += 1
                header = attrs.evolve(header, correlation_id=header.correlation_id - 1)
            reply(header, body)

        connection.reply = other  # type: ignore[method-assign]  # the answers of one connection only
        honest(connection)

    with ScriptedPeer(confused) as peer:
        shim.leader = (peer.host, peer.port)
        with Consumer(settings(cluster, peer)) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            assert read_to_ends(consumer)[TOPIC, 0] == expected
    assert seen
