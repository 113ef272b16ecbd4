"""Lists of segments by the leaders of partitions: one Fetch per leader for up to 128 partitions, page by page.

Only a peer that announces lists gets the request. The Fetch is at the end of the log: that offset is valid at any time, and no
broker reads the tier for it. The start of the list is a field of its own.

Requests repeat while a page is pending or names a next one. Each page begins where the one before ended, so they end. If a
request fails, for example at the deadline, the complete lists are kept.

References: docs/wire-format.md ("Lists of segments").
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError, NotAnnouncedError
from kafka_remote_client.location.answer import leader_answer
from kafka_remote_client.location.cluster_metadata import Key, PartitionLeader
from kafka_remote_client.location.leaders import PartitionLeaders, fetch_tagged, fetch_version
from kafka_remote_client.location.tier_offsets import leader_offsets
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    IsolationLevel,
    LocationPending,
    NotRemote,
)
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import MOST_PARTITIONS, LocationRequest, SegmentPage, TaggedDialect
from kafka_remote_client.protocol.list_offsets import OffsetSpec
from kafka_remote_client.protocol.peer import PeerSession
from kafka_remote_client.segment_spans import SegmentSpans

__all__ = ["LeaderLists", "PartitionsAtOnce", "page_of_answer"]

_log = logging.getLogger(__name__)


class PartitionsAtOnce:
    """How many partitions one request names: ``most``.

    The partitions of a request share the entries of its answer. Fewer partitions have longer pages, so long lists need fewer
    pages, each of which costs the shim and the broker a look-up. Short lists need fewer requests for more partitions::

        more than half of the pages name a next one          | half as many partitions
        the answer has at most half the entries of the fullest | twice as many
    """

    def __init__(self) -> None:
        self.most = MOST_PARTITIONS
        self._fullest = 0

    def adapt(self, pages: Sequence[SegmentPage]) -> None:
        """Adapts ``most`` to the pages of one answer."""
        entries = sum(len(page.entries) for page in pages)
        self._fullest = max(self._fullest, entries)
        if 2 * sum(page.next_start is not None for page in pages) > len(pages):
            self.most = max(1, self.most // 2)
        elif 2 * entries <= self._fullest:
            self.most = min(MOST_PARTITIONS, self.most * 2)


class LeaderLists:
    """Asks ``leaders`` for lists of segments. Thread safe."""

    def __init__(self, leaders: PartitionLeaders, clock: Clock) -> None:
        self._leaders = leaders
        self._clock = clock
        self._dialect = TaggedDialect()

    def segments_of(self, partitions: Sequence[Key], deadline: Deadline, connection: str) -> dict[Key, SegmentSpans]:
        """As SegmentListingSource. ``connection``: as for PartitionLeaders.ask_all. It logs why a partition is left out."""
        answers = self._leaders.ask_all(list(dict.fromkeys(partitions)), deadline, self._list_led, connection)
        found: dict[Key, SegmentSpans] = {}
        for key, answer in answers.items():
            if isinstance(answer, DirectFetchError):
                _log.debug("the segments of %s-%s are not listed: %s", *key, answer)
            else:
                found[key] = answer
        return found

    def _list_led(
        self, session: PeerSession, led: Mapping[Key, PartitionLeader], deadline: Deadline
    ) -> Mapping[Key, SegmentSpans | DirectFetchError]:
        answers: dict[Key, SegmentSpans | DirectFetchError] = {}
        if not session.versions.announces_segment_lists:
            return {key: NotAnnouncedError(leader.host) for key, leader in led.items()}
        by_version: dict[int, dict[Key, int]] = defaultdict(dict)
        for key, end in leader_offsets(session, OffsetSpec.LATEST, led, deadline).items():
            version = fetch_version(led[key], session)
            if isinstance(end, DirectFetchError):
                answers[key] = end
            elif version is None:
                answers[key] = LocationError("the leader has no version of Fetch with tagged fields")
            else:
                by_version[version][key] = end
        for version, ends in by_version.items():
            answers |= self._all_pages(session, led, ends, version, deadline)
        return answers

    def _all_pages(
        self,
        session: PeerSession,
        led: Mapping[Key, PartitionLeader],
        ends: Mapping[Key, int],
        version: int,
        deadline: Deadline,
    ) -> Mapping[Key, SegmentSpans | DirectFetchError]:
        """The lists of some partitions. ``ends``: the end of each log. Raises LocationError if it has none of the lists."""
        answers: dict[Key, SegmentSpans | DirectFetchError] = {}
        listed = {key: SegmentSpans() for key in ends}
        starts = dict.fromkeys(ends, 0)
        batch = PartitionsAtOnce()
        while starts:
            some = dict(islice(starts.items(), batch.most))
            try:
                pages = self._page(session, led, ends, some, version, deadline)
            except LocationError as error:
                if not answers:
                    raise
                return answers | dict.fromkeys(starts, error)
            batch.adapt([page for page in pages.values() if isinstance(page, SegmentPage)])
            for key, page in pages.items():
                if isinstance(page, DirectFetchError):
                    answers[key] = page
                    del starts[key]
                elif isinstance(page, SegmentPage):
                    listed[key].add(page.entries)
                    if page.next_start is None:
                        answers[key] = listed[key]
                        del starts[key]
                    else:
                        starts[key] = page.next_start
        return answers

    def _page(
        self,
        session: PeerSession,
        led: Mapping[Key, PartitionLeader],
        ends: Mapping[Key, int],
        starts: Mapping[Key, int],
        version: int,
        deadline: Deadline,
    ) -> Mapping[Key, SegmentPage | LocationPending | DirectFetchError]:
        """The answers to one Fetch. Raises LocationError."""
        by_id = version >= fetch.FIRST_VERSION_WITH_TOPIC_IDS
        wanted: dict[Key, fetch.FetchPartition] = {}
        questions: dict[Key, LocationQuestion] = {}
        for key, start in starts.items():
            _, tags = self._dialect.request_tags(LocationRequest((), batched=True, list_start=start))
            wanted[key] = fetch.FetchPartition(key[1], ends[key], 0, led[key].leader_epoch, tags=tags)
            questions[key] = LocationQuestion(
                topic=key[0],
                topic_id=led[key].topic_id,
                partition=key[1],
                offset=ends[key],
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
            )

        def read(key: Key, response: fetch.FetchResponse) -> SegmentPage | LocationPending:
            return page_of_answer(questions[key], response, starts[key], by_id=by_id, dialect=self._dialect)

        return fetch_tagged(session, version, wanted, led, deadline, read=read)


def page_of_answer(
    question: LocationQuestion, response: fetch.FetchResponse, start: int, *, by_id: bool, dialect: TaggedDialect
) -> SegmentPage | LocationPending:
    """Reads one partition's page of segments from ``start`` on; ``by_id`` = the request named the topic by its id.

    Raises BrokerResponseError for an error of the leader, ProtocolError for a page that contradicts itself or the question,
    LocationError if there is none.
    """
    data = leader_answer(question, response, by_id=by_id)
    if isinstance(data, NotRemote):
        raise LocationError(f"{question}: no list of segments ({data.reason})")
    if dialect.is_pending(data.tags):
        return LocationPending()
    page = dialect.read_page(data.tags, start)
    if page is None:
        raise LocationError(f"{question}: the leader lists no segments of the partition")
    return page
