"""A shim in a process of its own, whose store behaves like a model that the benchmark changes while it runs.

The model holds for GETs of its object origin, and for its own reads of indexes, checkpoints and batch headers.

Arguments: the cluster's bootstrap servers, the store's URL, and perhaps further settings of the shim as JSON. Prints
``{"bootstrap": …, "origin": …}`` when all that is tiered is known; the origin is null where URLs lead to the store. Each line
of standard input is the text of a model (tests/support/live_store.py), answered by ``{"requests": …, "bytes_sent": …}`` of the
origin so far; the end of the input stops it.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest import mock

from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.shim import shim_tier
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.origin import ObjectOrigin
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.testing import StoreModel
from tests.support.live_store import LiveStoreModel, model_of_text, modelled

__all__: list[str] = []

_PATIENCE_SECONDS = 120.0


def main() -> None:
    servers, store, *more = sys.argv[1:]
    live = LiveStoreModel(StoreModel())
    really = shim_tier.ResolvingTier

    def delayed(
        metadata: RemoteLogMetadataStore, objects: RemoteObjectStore, *others: Any, **named: Any
    ) -> shim_tier.ResolvingTier:
        return really(metadata, modelled(objects, live), *others, **named)

    config = ShimConfig(bootstrap_servers=servers, store=store, **json.loads(more[0] if more else "{}"))
    with mock.patch.object(shim_tier, "ResolvingTier", delayed), Shim(config) as shim:
        origin = _origin(shim)
        if origin is not None:
            origin.faults.store = live
        if not shim.wait_ready(_PATIENCE_SECONDS):
            raise TimeoutError(f"the shim does not know the tier after {_PATIENCE_SECONDS:.0f} s")
        print(json.dumps({"bootstrap": shim.bootstrap_servers, "origin": shim.origin_url}), flush=True)
        for line in sys.stdin:
            live.use(model_of_text(line))
            seen = None if origin is None else origin.statistics()
            counts = (0, 0) if seen is None else (seen.requests, seen.bytes_sent)
            print(json.dumps(dict(zip(("requests", "bytes_sent"), counts, strict=True))), flush=True)


def _origin(shim: Shim) -> ObjectOrigin | None:
    """``None`` where signed URLs lead to the store."""
    assert shim._tier is not None
    return shim._tier._origin


if __name__ == "__main__":
    main()
