from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.values.isolating import parse_each
from kafka_remote_client.values.text_format import parse_text


def decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


@given(st.lists(st.one_of(st.none(), st.binary(max_size=4), st.text(max_size=4).map(str.encode)), max_size=20))
def test_bytes_become_the_text_that_python_decodes(values: list[bytes | None]) -> None:
    parsed = parse_each(pa.array(values, pa.binary()), parse_text)
    assert parsed.values.type == pa.string()
    assert parsed.values.to_pylist() == [decoded(value) for value in values]
    assert parsed.errors.keys() == {row for row, value in enumerate(values) if value is not None and decoded(value) is None}
