"""Builds and installs the object store servers of the tests into .cache/: ``make store-servers``."""

from __future__ import annotations

from tests.support import azure_server, gcs_server, s3_server
from tests.support.artifacts import CACHE, MissingPartError

__all__: list[str] = []

if __name__ == "__main__":
    for install in (s3_server.server_binary, gcs_server.server_binary, lambda: azure_server.server_program()[1]):
        try:
            print(install().relative_to(CACHE.parent))
        except MissingPartError as error:  # tests that need it say so too
            print(f"missing: {error}")
