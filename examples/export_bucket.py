"""Saves the topics of a cluster that is gone: from its bucket alone to Parquet files, each record once.

    python examples/export_bucket.py --store s3://bucket/tier --target s3://lake/kafka

All topics are exported, one job for each, into a folder for each. Started again after a crash or a full disk, it continues
where it stopped. A topic that cannot be read to its end is named at the end, and has no visible files.
"""

from __future__ import annotations

import argparse
import sys

from kafka_remote_client import open_tier, scan
from kafka_remote_client.errors import DirectFetchError


def key_file(text: str) -> tuple[str, str]:
    """A key of the command line."""
    key_id, equals, path = text.partition("=")
    if not key_id or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEYID=FILE")
    return key_id, path


def main() -> None:
    """Exports topic by topic. Exit status 1 where one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="URL of the tier: s3://BUCKET/PREFIX, gs://…, az://…, file:///DIR")
    parser.add_argument("--layout", default="local-tiered-storage", help="layout of its objects")
    parser.add_argument("--key-prefix", default="", help="prefix of all object names (aiven)")
    parser.add_argument(
        "--encryption-key", action="append", default=[], type=key_file, metavar="KEYID=FILE", help="private key (aiven)"
    )
    parser.add_argument("--target", required=True, help="URL of a folder: s3://BUCKET/PREFIX, gs://…, abfs://…, file:///DIR")
    arguments = parser.parse_args()
    where = {
        "layout": arguments.layout,
        "key_prefix": arguments.key_prefix,
        "encryption_keys": dict(arguments.encryption_key),
    }
    try:
        with open_tier(arguments.store, **where) as tier:
            topics = tier.topics()
    except DirectFetchError as error:
        sys.exit(f"not exported: {error}")
    failed = []
    for topic in topics:
        try:
            result = scan(arguments.store, topic, **where).to_parquet(f"{arguments.target}/{topic}")
        except DirectFetchError as error:
            failed.append(topic)
            print(f"{topic}: {error}", file=sys.stderr)
        else:
            print(f"{topic}: {result.rows} records, up to {result.starting_offsets()}")
    if failed:
        sys.exit(f"not exported: {', '.join(failed)}")


if __name__ == "__main__":
    main()
