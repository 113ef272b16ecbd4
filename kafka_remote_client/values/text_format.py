"""Text: bytes that are UTF-8 become strings, without a copy."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["parse_text"]


def parse_text(column: pa.Array) -> pa.Array:
    """Returns strings. Raises ValueError if one is not UTF-8."""
    return column.cast(pa.string())
