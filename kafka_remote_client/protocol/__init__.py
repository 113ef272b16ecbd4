"""Kafka's wire: primitives, the few messages that this package speaks, the direct-fetch dialect, one blocking connection."""

__all__: list[str] = []
