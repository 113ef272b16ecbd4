"""Direct remote fetch for Kafka tiered storage: a consumer that reads old segments straight from the object store."""

from kafka_remote_client import errors
from kafka_remote_client.consumer.consumer import Consumer
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.plugin import RemoteStorageFetcher

__all__ = ["Consumer", "RemoteReader", "RemoteStorageFetcher", "errors"]
