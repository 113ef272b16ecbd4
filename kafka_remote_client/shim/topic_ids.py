"""The ids of the topics that a Fetch names, which are part of every question to the tier."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

from kafka_remote_client.location.probes import NotGrantedError
from kafka_remote_client.protocol import fetch, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.shim.broker_strategy import Ask
from kafka_remote_client.shim.tagged_fetch import TaggedFetch, TaggedPartition
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["TopicIds"]

_METADATA_VERSION = 12


class TopicIds:
    """The current ids of a request's topics, from the broker: a topic may have been deleted and created again.

    The first use gets all ids with one request.
    """

    def __init__(self, tagged: TaggedFetch, ask: Ask) -> None:
        self._names = tuple(dict.fromkeys(one.topic.topic for one in tagged.partitions))
        self._ask = ask
        self._asking = asyncio.Lock()
        self._known: Mapping[str, UUID] | None = None

    async def of(self, tagged: TaggedPartition) -> UUID:
        """Raises NotGrantedError for a missing topic."""
        if tagged.version >= fetch.FIRST_VERSION_WITH_TOPIC_IDS:
            return tagged.topic.topic_id
        async with self._asking:
            self._known = await self._request_ids() if self._known is None else self._known
        if tagged.topic.topic not in self._known:
            raise NotGrantedError("unknown-topic")
        return self._known[tagged.topic.topic]

    async def _request_ids(self) -> Mapping[str, UUID]:
        topics = tuple(metadata.MetadataRequestTopic(name) for name in self._names)
        request = metadata.MetadataRequest(topics, allow_auto_topic_creation=False)
        body = await self._ask(ApiKey.METADATA, _METADATA_VERSION, metadata.encode_request(request, _METADATA_VERSION))
        found = metadata.decode_response(body, _METADATA_VERSION).topics
        return {one.name: one.topic_id for one in found if one.name and not one.error_code and one.topic_id != ZERO_UUID}
