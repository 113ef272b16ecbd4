"""A tiered Kafka in this process with a shim and an object store, for the demo and for tests."""

__all__: list[str] = []
