"""Kafka's protocol: the few messages that this package speaks, the direct-fetch dialect, and one blocking connection."""

__all__: list[str] = []
