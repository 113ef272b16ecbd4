"""Shipped for plugin authors: the fetcher conformance suite and an object server to test against."""

__all__: list[str] = []
