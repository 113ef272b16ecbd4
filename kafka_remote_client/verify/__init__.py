"""Checks a whole tier and reports defects. It only reads: it never writes or deletes anything."""

__all__: list[str] = []
