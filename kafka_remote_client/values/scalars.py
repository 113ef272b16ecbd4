"""Arrow scalars made of buffers: ``pyarrow.scalar`` and ``pyarrow.array`` import pandas if it is installed (0.4 s)."""

from __future__ import annotations

from array import array

import pyarrow as pa

__all__ = ["binary_scalar", "int_scalar"]


def binary_scalar(value: bytes) -> pa.BinaryScalar:
    """``value`` as a ``pyarrow.binary()``."""
    buffers = [None, pa.py_buffer(array("i", [0, len(value)])), pa.py_buffer(value)]
    return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]


def int_scalar(value: int) -> pa.Int32Scalar:
    """``value`` as a ``pyarrow.int32()``."""
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(array("i", [value]))])[0]
