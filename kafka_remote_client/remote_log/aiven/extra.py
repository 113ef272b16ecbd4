"""The packages of the extra ``[aiven]``, which only encrypted segments need."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["INSTALL", "can_decrypt"]

INSTALL = "pip install 'kafka-remote-client[aiven]'"


def can_decrypt() -> bool:
    """Whether the package that decrypts chunks is installed."""
    return find_spec("cryptography") is not None
