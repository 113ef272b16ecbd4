"""Fetchers, one store each. Named by entry point, never imported by ``kafka_remote_client``."""

__all__: list[str] = []
