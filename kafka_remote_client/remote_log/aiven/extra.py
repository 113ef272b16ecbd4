"""What the extra ``[aiven]`` brings, asked for only where a segment is encrypted."""

from __future__ import annotations

from importlib.util import find_spec

from kafka_remote_client.registry import MissingExtraError

__all__ = ["INSTALL", "can_decrypt", "missing_extra"]

INSTALL = "pip install 'kafka-remote-client[aiven]'"


def can_decrypt() -> bool:
    """Whether chunks can be decrypted here, once their data key is known."""
    return find_spec("cryptography") is not None


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError:
    """The error to raise where one of its packages cannot be imported: it has the pip command."""
    return MissingExtraError(f"encrypted segments need {error.name}: {INSTALL}")
