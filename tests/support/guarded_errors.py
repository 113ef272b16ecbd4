"""Checks how a guard of the fetchers converts an SDK's exception."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_remote_client.errors import RemoteStorageError
from kafka_remote_client.testing import texts_of

__all__ = ["check_guarded"]


def check_guarded(guard: Any, where: str, raised: Exception, kind: type[RemoteStorageError]) -> None:
    """Checks that a call that raises ``raised`` gives an error of exactly ``kind``: it names ``where`` and has no "canary"."""

    def fail() -> None:
        raise raised

    with pytest.raises(RemoteStorageError) as caught:
        guard(where, fail)
    assert type(caught.value) is kind
    assert where in str(caught.value)
    assert not [text for text in texts_of(caught.value) if "canary" in text]
