"""Reports on a topic from its bucket alone: how many records and bytes each partition got in each hour.

    python examples/tier_report.py --store s3://bucket/tier --topic orders --since 2026-01-01

It needs no broker. The records go to DuckDB as a stream, so a topic of any size fits in memory. One line of JSON is printed for
each hour and partition.
"""

from __future__ import annotations

import argparse
import json
import sys

import duckdb

from kafka_remote_client import TableScan, scan
from kafka_remote_client.errors import DirectFetchError

REPORT = """
    select strftime(timestamp at time zone 'UTC', '%Y-%m-%dT%H:00Z') as hour,
           "partition",
           count(*) as records,
           coalesce(sum(octet_length(key)), 0) + coalesce(sum(octet_length("value")), 0) as bytes
    from records
    group by all
    order by all
"""


def show_report(records: TableScan) -> None:
    """Prints the report. Raises duckdb.Error, with the reason, where the tier cannot be read."""
    with duckdb.connect() as connection:
        connection.register("records", records.to_reader())
        report = connection.sql(REPORT)
        for row in report.fetchall():
            print(json.dumps(dict(zip(report.columns, row, strict=True)), default=int))


def main() -> None:
    """Reads the tier, and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="URL of the tier: s3://BUCKET/PREFIX, gs://…, az://…, file:///DIR")
    parser.add_argument("--layout", default="local-tiered-storage", help="layout of its objects")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--since", help="time in ISO 8601, UTC")
    parser.add_argument("--until", help="time in ISO 8601, UTC")
    arguments = parser.parse_args()
    try:
        records = scan(
            arguments.store,
            arguments.topic,
            since=arguments.since,
            until=arguments.until,
            columns=["partition", "timestamp", "key", "value"],
            layout=arguments.layout,
        )
        show_report(records)
    except (DirectFetchError, duckdb.Error) as error:  # DuckDB's own has a traceback behind the text
        sys.exit(f"not reported: {str(error).partition(' Detail: ')[0]}")


if __name__ == "__main__":
    main()
