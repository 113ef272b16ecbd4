"""Bytes to records. Pure: no I/O, no clock, no threads."""

__all__: list[str] = []
