"""What a task does: reads one split from the tier and from the broker, and counts what it took."""

__all__: list[str] = []
