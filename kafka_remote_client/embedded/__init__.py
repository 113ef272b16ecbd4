"""A cluster in this process, for the demo and for tests: a mock broker, an archiver, and the shim with its object origin."""

__all__: list[str] = []
