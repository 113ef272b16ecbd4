"""Frames of a byte stream: the same for any cut of the stream, in memory bounded by the received bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.shim.frames import FrameAction, FrameScanner, RequestHead


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Recorder:
    """Streams frames whose body begins with 's', collects the others; needs 'm' frames complete before it decides."""

    def __init__(self) -> None:
        self.collected: list[bytes] = []
        self.streamed = bytearray()
        self.fronts: list[int] = []
        self.scanner: FrameScanner | None = None
        self.pause_after: bytes | None = None

    def route(self, front: memoryview, length: int) -> FrameAction:
        self.fronts.append(len(front))
        if front[:1] == b"m" and len(front) < length:
            return FrameAction.MORE
        return FrameAction.STREAM if front[:1] in (b"s", b"m") else FrameAction.COLLECT

    def stream(self, data: memoryview) -> None:
        self.streamed += data

    def frame(self, body: bytes) -> None:
        self.collected.append(body)
        if body == self.pause_after and self.scanner is not None:
            self.scanner.pause()


def scanner(recorder: Recorder, **limits: int) -> FrameScanner:
    made = FrameScanner(recorder, **{"min_length": 4, "max_length": 1 << 20} | limits)
    recorder.scanner = made
    return made


bodies = st.lists(
    st.binary(min_size=3, max_size=300).flatmap(lambda tail: st.sampled_from([b"s", b"c", b"m"]).map(lambda k: k + tail))
)


@given(bodies, st.data())
def test_frames_do_not_depend_on_the_cut_of_the_stream(frames: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(framed(body) for body in frames)
    recorder = Recorder()
    made = scanner(recorder)
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        made.feed(stream[at : at + size])
        at += size
    assert recorder.collected == [body for body in frames if body[:1] == b"c"]
    assert bytes(recorder.streamed) == b"".join(framed(body) for body in frames if body[:1] != b"c")
    assert made.idle


def test_frames_can_arrive_byte_by_byte() -> None:
    recorder = Recorder()
    made = scanner(recorder)
    for byte in framed(b"collect me") + framed(b"stream me"):
        made.feed(bytes([byte]))
    assert recorder.collected == [b"collect me"]
    assert bytes(recorder.streamed) == framed(b"stream me")


def test_a_complete_frame_is_passed_on_in_one_piece() -> None:
    pieces: list[bytes] = []
    recorder = Recorder()
    recorder.stream = lambda data: pieces.append(bytes(data))
    scanner(recorder).feed(framed(b"stream me") + framed(b"stream more"))
    assert pieces == [framed(b"stream me"), framed(b"stream more")]


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 3, (1 << 20) + 1, 352_518_912, (1 << 31) - 1])
def test_refuses_a_length_outside_its_bounds_before_anything_else(length: int) -> None:
    recorder = Recorder()
    with pytest.raises(ProtocolError, match="bytes is outside"):
        scanner(recorder).feed(struct.pack(">i", length))
    assert not recorder.fronts


def test_memory_grows_with_received_bytes_not_with_announced_ones() -> None:
    recorder = Recorder()
    made = scanner(recorder, max_length=(1 << 31) - 1)
    made.feed(struct.pack(">i", (1 << 31) - 1) + b"collect")
    assert made._collected is not None
    assert len(made._collected) == len(b"collect")
    assert not made.idle


def test_a_handler_that_never_decides_ends_the_stream() -> None:
    recorder = Recorder()
    recorder.route = lambda front, length: FrameAction.MORE
    with pytest.raises(ProtocolError, match="does not parse"):
        scanner(recorder).feed(framed(b"m" * 200))
    with pytest.raises(ProtocolError, match="does not parse"):
        scanner(recorder, max_front=100).feed(struct.pack(">i", 100_000) + b"m" * 500)


def test_a_pause_delays_all_frames_until_it_ends() -> None:
    recorder = Recorder()
    recorder.pause_after = b"c-pause"
    made = scanner(recorder)
    made.feed(framed(b"c-first") + framed(b"c-pause") + framed(b"c-third"))
    made.feed(framed(b"c-fourth"))
    assert recorder.collected == [b"c-first", b"c-pause"]
    assert made.paused
    assert not made.idle
    made.resume()
    assert recorder.collected == [b"c-first", b"c-pause", b"c-third", b"c-fourth"]
    assert made.idle


@pytest.mark.parametrize("body", [b"stream me", b"collect me", b"make up your mind"])
def test_the_rest_of_a_frame_passes_during_a_pause(body: bytes) -> None:
    recorder = Recorder()
    made = scanner(recorder)
    route = recorder.route

    def pause(front: memoryview, length: int) -> FrameAction:
        action = route(front, length)
        if action is not FrameAction.MORE:
            made.pause()
        return action

    recorder.route = pause
    for byte in framed(body):
        made.feed(bytes([byte]))
    made.feed(framed(b"c-next"))
    assert [*recorder.collected, bytes(recorder.streamed)] == ([body, b""] if body[:1] == b"c" else [framed(body)])
    assert made.kept_back == len(framed(b"c-next"))
    made.resume()
    assert recorder.collected[-1] == b"c-next"


@pytest.mark.parametrize("body", [b"stream me", b"collect me", b"make up your mind"])
def test_a_frame_that_has_to_wait_is_routed_again(body: bytes) -> None:
    recorder = Recorder()
    made = scanner(recorder)
    route = recorder.route

    def wait(front: memoryview, length: int) -> FrameAction:
        made.pause()
        return FrameAction.WAIT

    recorder.route = wait
    made.feed(framed(b"c-first")[:-1])
    made.feed(framed(b"c-first")[-1:] + framed(body)[:6])
    made.feed(framed(body)[6:] + framed(b"c-last"))
    made.resume()
    assert not recorder.collected
    assert not made.idle
    recorder.route = route
    made.resume()
    assert recorder.collected == [one for one in (b"c-first", body, b"c-last") if one[:1] == b"c"]
    assert bytes(recorder.streamed) == (framed(body) if body[:1] != b"c" else b"")
    assert made.idle


def test_bytes_that_the_handler_feeds_come_after_waiting_ones() -> None:
    recorder = Recorder()
    made = scanner(recorder)

    def frame(body: bytes) -> None:
        recorder.collected.append(body)
        if body == b"c-again":
            made.feed(framed(b"c-last"))
            made.pause()
            made.resume()

    recorder.frame = frame
    made.feed(framed(b"c-again") + framed(b"c-next"))
    assert recorder.collected == [b"c-again", b"c-next", b"c-last"]


def test_a_request_head_is_the_first_eight_bytes() -> None:
    front = memoryview(struct.pack(">hhi", 1, 12, -7) + b"rest")
    assert RequestHead.parse(front) == RequestHead(1, 12, -7)


def test_the_front_of_a_frame_is_parsed_in_linear_work() -> None:
    recorder = Recorder()
    made = scanner(recorder)
    body = b"m" * 60_000
    for byte in framed(body):
        made.feed(bytes([byte]))
    assert bytes(recorder.streamed) == framed(body)
    assert sum(recorder.fronts) < 3 * len(body)


def test_ended_frames_and_held_bytes_are_counted() -> None:
    recorder = Recorder()
    made = scanner(recorder)
    made.feed(framed(b"collect me") + framed(b"stream me") + framed(b"collect")[:-1])
    assert (made.frames, made.held) == (2, 6)
    made.feed(b"t" + framed(b"stream me")[:-1])
    assert (made.frames, made.held) == (3, 0)
    made.feed(b"e")
    assert made.frames == 4
    made.pause()
    made.feed(b"12345")
    assert made.held == 5
