"""The engine: plans ranges, runs them side by side, bounds time and memory."""

__all__: list[str] = []
