"""The page, read back with Python's own HTML parser."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise

import attrs

from kafka_remote_client.cli.topic_map import PartKind, TopicMap, TopicPart
from kafka_remote_client.cli.topic_map_page import map_page

VOID = frozenset({"meta"})
IMPLIED_ENDS = frozenset({"td", "th"})
NOTE = '<script>alert("1")</script> & more'


def part(kind: PartKind, start: int | None, end: int | None, **more: object) -> TopicPart:
    return TopicPart("orders", 0, kind, start, end, **more)


PARTS = (
    part(PartKind.LOG_START, 5, None),
    part(PartKind.REMOTE, 0, 9, segment_id="AAA", bytes=1_000, stored_bytes=900, month_dollars=0.5, read_dollars=0.25),
    part(PartKind.REMOTE, 10, 99, segment_id="BBB", bytes=2_000, stored_bytes=1_800),
    part(PartKind.DUPLICATE, 10, 99, segment_id="CCC", note=NOTE),
    part(PartKind.DUPLICATE, 50, 99, segment_id="DDD"),
    part(PartKind.INCOMPLETE, 100, None, segment_id="EEE"),
    part(PartKind.LOCAL, 90, 199),
)


@attrs.define
class Page(HTMLParser):
    """Elements with their attributes, texts of titles, and what is open at the end."""

    elements: list[tuple[str, dict[str, str | None]]] = attrs.field(factory=list)
    titles: list[str] = attrs.field(factory=list)
    opened: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        HTMLParser.__init__(self)

    @classmethod
    def of(cls, topic_map: TopicMap) -> Page:
        page = cls()
        page.feed(map_page(topic_map))
        page.close()
        return page

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(given)))
        if tag == "title":
            self.titles.append("")
        if tag not in VOID | IMPLIED_ENDS:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.opened and self.opened[-1] == "title":
            self.titles[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.elements if name == tag]


def page_of(*parts: TopicPart, topic: str = "orders", asked: bool = True) -> Page:
    return Page.of(TopicMap(topic, parts, asked_broker=asked, read_metadata=asked))


def test_page_is_well_formed_and_loads_nothing() -> None:
    page = page_of(*PARTS)
    assert page.opened == []
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "a", "object"}
    names = {name for _, given in page.elements for name in given}
    assert not names & {"src", "href", "onclick", "onload"}
    assert page.all("meta")[1]["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_text_of_topics_and_notes_is_escaped() -> None:
    text = map_page(TopicMap("<b>&", PARTS, asked_broker=True, read_metadata=True))
    assert "<script" not in text
    assert "<b>" not in text
    assert NOTE in "\n".join(page_of(*PARTS).titles)


def test_each_part_has_a_rectangle_to_scale() -> None:
    rects = page_of(*PARTS).all("rect")
    assert len(rects) == len(PARTS)
    assert [(float(rect["x"] or ""), float(rect["width"] or "")) for rect in rects[:2]] == [(0, 50), (50, 450)]
    assert (rects[-1]["x"], rects[-1]["width"]) == ("25.00", "2.00"), "the log start is drawn over the segments"


def test_parts_in_one_lane_do_not_overlap() -> None:
    lanes: dict[str, list[tuple[float, float]]] = {}
    for rect in page_of(*PARTS[1:]).all("rect"):
        lanes.setdefault(rect["y"] or "", []).append((float(rect["x"] or ""), float(rect["width"] or "")))
    assert len(lanes) == 4
    for lane in lanes.values():
        ordered = sorted(lane)
        assert all(x + width <= following + 0.01 for (x, width), (following, _) in pairwise(ordered))


def test_hover_tells_bytes_and_cost() -> None:
    assert page_of(*PARTS).titles[1] == "remote: 0 to 9\nsegment AAA\n1,000 bytes, 900 stored\n$0.5000 a month\n$0.2500 a read"


def test_page_says_what_was_not_asked() -> None:
    text = map_page(TopicMap("orders", PARTS, asked_broker=False, read_metadata=False))
    assert "No broker was asked" in text
    assert "metadata topic was not read" in text


def test_single_offset_and_foreign_objects_are_drawn() -> None:
    foreign = TopicPart("orders", None, PartKind.FOREIGN, stored_bytes=3, note="x/y")
    page = page_of(part(PartKind.LOG_START, 7, None), foreign)
    assert page.all("svg")[0]["aria-label"] == "Offsets 7 to 7 of partition 0"
    assert len(page.all("table")) == 2
