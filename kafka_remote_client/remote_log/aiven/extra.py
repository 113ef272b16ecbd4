"""The packages of the extra ``[aiven]``, which only encrypted segments need."""

from __future__ import annotations

from importlib.util import find_spec

from kafka_remote_client.registry import MissingExtraError

__all__ = ["INSTALL", "can_decrypt", "missing_extra"]

INSTALL = "pip install 'kafka-remote-client[aiven]'"


def can_decrypt() -> bool:
    """Whether the package that decrypts chunks is installed."""
    return find_spec("cryptography") is not None


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError:
    """The error for a package of the extra that cannot be imported, with the pip command."""
    return MissingExtraError(f"encrypted segments need {error.name}: {INSTALL}")
