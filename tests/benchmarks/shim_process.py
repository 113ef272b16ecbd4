"""A shim in a process of its own, with a latency in front of its object origin that the benchmark changes while it runs.

Arguments: the cluster's bootstrap servers, the store's URL, and perhaps further settings of the shim as JSON. Prints
``{"bootstrap": …, "origin": …}``; each line of standard input is the new latency in milliseconds, answered by
``{"requests": …, "bytes_sent": …}`` of the origin so far; the end of the input stops it.
"""

from __future__ import annotations

import json
import sys

from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.benchmarks.origin_latency import origin_counts, set_origin_latency

__all__: list[str] = []


def main() -> None:
    servers, store, *more = sys.argv[1:]
    with Shim(ShimConfig(bootstrap_servers=servers, store=store, **json.loads(more[0] if more else "{}"))) as shim:
        print(json.dumps({"bootstrap": shim.bootstrap_servers, "origin": shim.origin_url}), flush=True)
        for line in sys.stdin:
            set_origin_latency(shim, int(line) / 1000)
            print(json.dumps(origin_counts(shim)), flush=True)


if __name__ == "__main__":
    main()
