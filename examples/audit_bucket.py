"""Audits a tier from its bucket alone: damage, gaps between segments, and objects that no reader will ask for.

    python examples/audit_bucket.py --store s3://bucket/tier > findings.jsonl

It needs no broker, and only reads. It prints one line of JSON for each finding, and a summary as the last line. The exit status
is 0 for a sound tier, 1 with findings, and 2 if there are none, but the tier or a part of it cannot be checked. Only brokers
know which complete segments they have forgotten: `kafka-remote verify --bootstrap-servers` asks them.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.registry import load_store
from kafka_remote_client.remote_log.layouts import layout_named
from kafka_remote_client.verify.layout_inspectors import inspector_of
from kafka_remote_client.verify.seen_store import SeenStore
from kafka_remote_client.verify.verifier import TierVerifier, VerifyRequest


def audit(url: str, layout: str, request: VerifyRequest) -> int:
    """Prints what it finds, as it finds it. Returns the exit status."""
    inspector = inspector_of(layout_named(layout))
    with closing(load_store(url)) as store:
        verifier = TierVerifier(SeenStore(store), inspector, request)
        for item in verifier.run():
            print(json.dumps(item.as_json()), flush=True)
    print(json.dumps(verifier.summary.as_json()))
    return verifier.summary.exit_status


def main() -> None:
    """Audits the tier."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="URL of the tier: s3://BUCKET/PREFIX, gs://…, az://…, file:///DIR")
    parser.add_argument("--layout", default="local-tiered-storage", help="layout of its objects")
    parser.add_argument("--topic", action="append", default=[], help="only this topic; may be repeated")
    parser.add_argument("--quick", action="store_true", help="read indexes and manifests, but not the logs")
    arguments = parser.parse_args()
    try:
        status = audit(arguments.store, arguments.layout, VerifyRequest(tuple(arguments.topic), quick=arguments.quick))
    except DirectFetchError as error:
        print(f"not audited: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)


if __name__ == "__main__":
    main()
