"""obstore's exceptions as our errors; test_object_store tests the settings with the classes that use them."""

from __future__ import annotations

import pytest
from kafka_remote_fetchers._obstore import obstore_guarded
from obstore import exceptions as obstore

from kafka_remote_client.errors import (
    ForbiddenLocationError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from tests.support.guarded_errors import check_guarded

CANARY = "Error performing GET https://canary/key?sig=canary in 1ms - "


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (FileNotFoundError(f"{CANARY}status code: 404 Not Found: <Code>NoSuchKey</Code>"), SegmentNotFoundError),
        (FileNotFoundError("canary"), SegmentNotFoundError),
        (obstore.GenericError(f"{CANARY}status code: 416 Range Not Satisfiable"), RangeNotSatisfiableError),
        (obstore.GenericError("Wanted range starting at 9, but object was only 1 bytes long"), RangeNotSatisfiableError),
        (obstore.PermissionDeniedError("canary"), RemoteStorageAccessError),
        (obstore.UnauthenticatedError("canary"), RemoteStorageAccessError),
        (obstore.GenericError(f"{CANARY}HTTP error: error sending request, TimedOut"), RemoteStorageTimeoutError),
        (obstore.GenericError(f"{CANARY}HTTP error: error sending request"), RemoteStorageUnavailableError),
        (obstore.GenericError("Error performing token request: canary"), RemoteStorageAccessError),
        (obstore.GenericError("canary"), RemoteStorageError),
        (ValueError("Could not parse path: canary"), ForbiddenLocationError),
    ],
)  # fmt: skip
def test_each_exception_has_its_error_and_keeps_its_text(raised: Exception, kind: type[RemoteStorageError]) -> None:
    check_guarded(obstore_guarded, "gs://bucket", raised, kind)
