"""Where reads begin and end: offsets in JSON, bounds, what the cluster says about them, and lost data."""

__all__: list[str] = []
