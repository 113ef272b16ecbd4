"""Locations of offsets: LocationSource and its implementations."""

__all__: list[str] = []
