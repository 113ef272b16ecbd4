"""Builds and installs the object store servers of the tests into .cache/: ``make store-servers``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support import azure_server, gcs_server, s3_server
from tests.support.artifacts import CACHE, MissingPartError

__all__: list[str] = []


def _install(*steps: Callable[[], Path]) -> None:
    for step in steps:
        try:
            print(step().relative_to(CACHE.parent), flush=True)
        except MissingPartError as error:  # tests that need it report it too
            print(f"missing: {error}", flush=True)


if __name__ == "__main__":
    # npm waits for the network while Go computes.
    with ThreadPoolExecutor(2) as side_by_side:
        by_go = side_by_side.submit(_install, lambda: s3_server.server_binary(more_to_build=True), gcs_server.server_binary)
        by_npm = side_by_side.submit(_install, lambda: azure_server.server_program()[1])
        by_go.result()
        by_npm.result()
