"""The face for applications: remote and broker merged per partition behind confluent_kafka.Consumer."""

__all__: list[str] = []
