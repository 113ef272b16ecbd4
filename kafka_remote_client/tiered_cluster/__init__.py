"""A small model of a partition of Kafka with tiered storage: log, segment files, and the tasks of its leader. Pure.

Everything is a frozen value, and time is an argument. The model judges this client's readers, so it shares no code with them:
it imports nothing but ``model`` and ``errors`` (an import contract in pyproject.toml). Files and records of real brokers judge
the model (tests/tiered_cluster).
"""

__all__: list[str] = []
