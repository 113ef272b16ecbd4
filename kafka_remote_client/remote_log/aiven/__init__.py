"""The layout of Aiven's tiered storage plugin: manifests, chunks that may be compressed and encrypted, joined index files."""

from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.layout import CHUNKED_FORMAT, AivenLayout

__all__ = ["CHUNKED_FORMAT", "AivenLayout", "ChunkTable", "KeyRing"]
