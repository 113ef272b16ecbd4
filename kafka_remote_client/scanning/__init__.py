"""A scan: what to read of topics as one value, its plan, and the readers that adapt it to Arrow and to table engines."""

__all__: list[str] = []
