"""Rebuilds topics from their tier for a freshly formatted KRaft node. No broker and no JVM is needed."""

__all__: list[str] = []
