"""The API for applications: merges store and broker per partition behind confluent_kafka.Consumer."""

__all__: list[str] = []
