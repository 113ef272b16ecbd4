"""The work of a task: reads one split from the tier and from the broker, and counts the cost."""

__all__: list[str] = []
