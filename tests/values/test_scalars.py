from __future__ import annotations

import pyarrow as pa

from kafka_remote_client.values.scalars import binary_scalar, int_scalar


def test_scalars_equal_those_of_pyarrow() -> None:
    for value in (b"", b'{"v":['):
        assert binary_scalar(value).equals(pa.scalar(value, pa.binary()))
    for number in (1, -7):
        assert int_scalar(number).equals(pa.scalar(number, pa.int32()))
