"""The engine: plans ranges, reads them in parallel, limits time and memory."""

__all__: list[str] = []
