"""Looks at a whole tier and says what is wrong with it. Reads only: nothing is ever written or deleted."""

__all__: list[str] = []
