"""What the extra ``[aiven]`` brings, asked for only where a segment is encrypted."""

from __future__ import annotations

from kafka_remote_client.registry import MissingExtraError

__all__ = ["missing_extra"]


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError:
    """The error to raise where one of its packages cannot be imported: it has the pip command."""
    return MissingExtraError(f"encrypted segments need {error.name}: pip install 'kafka-remote-client[aiven]'")
