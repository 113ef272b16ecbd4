"""Keys and values as typed Arrow columns: JSON, Avro and text, with a policy for values that do not parse. Needs pyarrow."""

from kafka_remote_client.values.decoder import ValueDecoder

__all__ = ["ValueDecoder"]
