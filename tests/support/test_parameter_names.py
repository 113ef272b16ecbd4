"""Names of parametrized cases are equal in all workers."""

from __future__ import annotations

import pytest

from tests.conftest import LONGEST_BYTES, pytest_make_parametrize_id


@pytest.mark.parametrize("body", [bytes(LONGEST_BYTES + 1), b"short"])
def test_long_bytes_are_named_by_their_parameter(body: bytes, request: pytest.FixtureRequest) -> None:
    assert request.node.callspec.id == ("body" if len(body) > LONGEST_BYTES else "short")


@pytest.mark.parametrize("value", ["a" * (LONGEST_BYTES + 1), None, 17, bytes(LONGEST_BYTES)])
def test_other_values_keep_the_names_of_pytest(value: object) -> None:
    assert pytest_make_parametrize_id(value, "value") is None
