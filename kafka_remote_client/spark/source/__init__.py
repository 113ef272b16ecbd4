"""The entry points of PySpark: the data source, its stream reader, and ``read_segments``."""

__all__: list[str] = []
