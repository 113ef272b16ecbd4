"""What PySpark calls: the data source, its stream reader, and ``read_segments``."""

__all__: list[str] = []
