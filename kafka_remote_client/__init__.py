"""Direct remote fetch for Kafka tiered storage: a consumer that reads old segments straight from the object store.

The names below are imported when they are first asked for, so that a part, say the record decoder, comes without the rest.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from kafka_remote_client.lazy_exports import lazy_exports

if sys.platform == "win32":
    raise ImportError("kafka-remote-client does not support Windows: use Linux, macOS, or the Windows Subsystem for Linux")

if TYPE_CHECKING:
    from kafka_remote_client import errors
    from kafka_remote_client.consumer.aio import AIOConsumer, AsyncDeserializingConsumer
    from kafka_remote_client.consumer.consumer import Consumer, DeserializingConsumer
    from kafka_remote_client.consumer.read_progress import Progress
    from kafka_remote_client.consumer.tier_log import Tier
    from kafka_remote_client.fetch.open_reader import open_reader
    from kafka_remote_client.fetch.remote_reader import RemoteReader
    from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
    from kafka_remote_client.model import IsolationLevel
    from kafka_remote_client.plugin import RemoteStorageFetcher
    from kafka_remote_client.scanning.predicate import column, header
    from kafka_remote_client.scanning.scan import Scan
    from kafka_remote_client.scanning.scan_topics import scan
    from kafka_remote_client.scanning.table_scan import TableScan
    from kafka_remote_client.version import __version__

__all__ = [
    "AIOConsumer",
    "AsyncDeserializingConsumer",
    "Consumer",
    "DeserializingConsumer",
    "IsolationLevel",
    "Progress",
    "RemoteReader",
    "RemoteStorageFetcher",
    "Scan",
    "TableScan",
    "Tier",
    "TierReader",
    "__version__",
    "column",
    "errors",
    "header",
    "open_reader",
    "open_tier",
    "scan",
]

_HOMES = {
    "AIOConsumer": "kafka_remote_client.consumer.aio",
    "AsyncDeserializingConsumer": "kafka_remote_client.consumer.aio",
    "Consumer": "kafka_remote_client.consumer.consumer",
    "DeserializingConsumer": "kafka_remote_client.consumer.consumer",
    "IsolationLevel": "kafka_remote_client.model",
    "Progress": "kafka_remote_client.consumer.read_progress",
    "RemoteReader": "kafka_remote_client.fetch.remote_reader",
    "RemoteStorageFetcher": "kafka_remote_client.plugin",
    "Scan": "kafka_remote_client.scanning.scan",
    "TableScan": "kafka_remote_client.scanning.table_scan",
    "Tier": "kafka_remote_client.consumer.tier_log",
    "TierReader": "kafka_remote_client.fetch.tier_reader",
    "__version__": "kafka_remote_client.version",
    "column": "kafka_remote_client.scanning.predicate",
    "errors": "kafka_remote_client.errors",
    "header": "kafka_remote_client.scanning.predicate",
    "open_reader": "kafka_remote_client.fetch.open_reader",
    "open_tier": "kafka_remote_client.fetch.tier_reader",
    "scan": "kafka_remote_client.scanning.scan_topics",
}


__getattr__, __dir__ = lazy_exports(globals(), _HOMES)
