"""Writes the pages of docs/ that are tables, from the code. ``python docs/generate.py --check`` fails on drift instead."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import surface

from kafka_remote_client.config import SETTINGS, Setting
from kafka_remote_client.fetch.policy import POLICY
from kafka_remote_client.metrics import BY_CAUSE, BY_PARTITION, COUNTERS, METRICS
from kafka_remote_client.spark import java_options, security
from kafka_remote_client.spark.option_table import OPTIONS, Option

HERE = Path(__file__).parent


def configs() -> str:
    """The table of all settings."""
    lines = [
        "# Settings",
        "",
        "Given beside librdkafka's own in the consumer's configuration. The first five are KIP-1254's. Keys that begin with",
        "`remote.storage.fetcher.` and are not listed belong to the fetcher (docs/plugins.md). Generated from",
        "`kafka_remote_client/config.py`.",
        "",
        "| name | type | default | unit | bounds | what it does, and what moving it costs |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_row, SETTINGS)]) + "\n"


def _row(setting: Setting) -> str:
    default = "null" if setting.default is None else str(setting.default).lower()
    bounds = ", ".join(setting.choices) if setting.minimum is None else f"{setting.minimum} to {setting.maximum}"
    return f"| `{setting.name}` | {setting.type.__name__} | {default} | {setting.unit} | {bounds} | {setting.doc} |"


def metrics() -> str:
    """The table of all metrics."""
    lines = [
        "# Metrics",
        "",
        "`Consumer.metrics()` gives these as plain numbers. Those that are told by cause are a mapping from cause to count,",
        "those by partition one from `topic-number` to a number, for the partitions that are assigned now and of which it is",
        "known. On the broker path the lag is that of the last look (`fetch.remote.recheck.interval.ms`); where the local log",
        "begins is asked when a direct read begins, and again when it gets there. Counters only grow.",
        "",
        "The statistics that `stats_cb` gets have all of them under the key `remote_fetch`. Prometheus has them as",
        "`kafka_remote_fetch_request_total` and so on, with the labels `client` and `cause` (empty where nothing is told by",
        "cause), or `client`, `topic` and `partition`; OpenTelemetry as `kafka.remote-fetch-request-total`, with attributes of",
        "these names. Made from `kafka_remote_client/metrics.py`.",
        "",
        "| name | kind | by | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_metric_row(name, meaning) for name, meaning in METRICS.items())]) + "\n"


def _metric_row(name: str, meaning: str) -> str:
    kind = "counter" if name in COUNTERS else "gauge"
    by = "cause" if name in BY_CAUSE else "partition" if name in BY_PARTITION else ""
    return f"| `{name}` | {kind} | {by} | {meaning} |"


_YES_NO = {True: "yes", False: "no"}


def failures() -> str:
    """The table of what follows a failure."""
    lines = [
        "# What follows a failure",
        "",
        "One table, `kafka_remote_client/fetch/policy.py`, decides it for ranges of all partitions; this page is made from it.",
        "The cause is what `remote-fetch-errors-total` and `remote-fetch-fallbacks-total` count by. Where the first action has",
        "no budget left, or none is given, the broker goes on from the exact next offset. Which faults these are, and which",
        "tests inject them: [reliability.md](reliability.md).",
        "",
        "| cause | what was seen | first | how often | counts against the store |",
        "|---|---|---|---|---|",
    ]
    rows = (
        f"| `{rule.error.cause}` | {rule.symptom} | {rule.error.action.value} | {rule.budget.value} | {_YES_NO[rule.counts]} |"
        for rule in POLICY
    )
    return "\n".join([*lines, *rows]) + "\n"


def spark_options() -> str:
    """The tables of the options of ``format("kafka-remote")``."""
    ours = [option for option in OPTIONS if option.is_ours]
    lines = [
        '# Options of `format("kafka-remote")`',
        "",
        "Generated from `kafka_remote_client/spark/`. How to use them: [spark.md](spark.md).",
        "",
        '## Those of `format("kafka")`',
        "",
        "Names, values and defaults are Spark's own, and these are all that its source has; a test holds them against it.",
        "Names are read in any case.",
        "",
        *_OPTIONS_HEAD,
        *(_option_row(option) for option in OPTIONS if option not in ours),
        "",
        "Those of streaming are ignored in batch queries, with a warning; those of batch are refused in streaming ones; both",
        "as by Spark.",
        "",
        "## Ours",
        "",
        "Beside these every setting of [configs.md](configs.md) can be given under its own name, and any of librdkafka as",
        "`remote.librdkafka.<setting>`. `fetch.remote.enabled` is true here, the fetcher of signed URLs is the default where",
        "the shim is asked, and `fetch.remote.location.timeout.ms` is 10000.",
        "",
        *_OPTIONS_HEAD,
        *map(_option_row, ours),
        "",
        "## `kafka.*`: settings of Java's client",
        "",
        "| option | becomes librdkafka's |",
        "|---|---|",
        *(f"| `kafka.{name}` | `{kind.name}` |" for name, kind in sorted(java_options.TRANSLATED.items())),
        "| `kafka.isolation.level` | `isolation.level`; `read_uncommitted` by default, as in Spark |",
        "| `kafka.default.api.timeout.ms` | the time that the driver gives one question to the cluster |",
        "| `kafka.security.protocol`, `kafka.sasl.*`, `kafka.ssl.*` | see [spark.md](spark.md#security) |",
        "",
        "All others are ignored, with one warning, as nothing here corresponds to them: those of groups, metrics, Java's own",
        f"tuning, and of security {', '.join(f'`kafka.{name}`' for name in sorted(security.IGNORED))}.",
        "",
        "| option | is refused: |",
        "|---|---|",
        *(f"| `kafka.{name}` | {why} |" for name, why in sorted({**java_options.REFUSED, **security.REFUSED}.items())),
        "| any other `kafka.sasl.*`, `kafka.ssl.*`, `kafka.security.*` | no security setting is passed over in silence |",
    ]
    return "\n".join(lines) + "\n"


_OPTIONS_HEAD = ("| option | queries | default | meaning | what differs from Spark's own source |", "|---|---|---|---|---|")


def _option_row(option: Option) -> str:
    return f"| `{option.name}` | {option.scope.value} | {option.default} | {option.doc} | {option.differs} |"


def consumer() -> str:
    """The page about the consumer, which is written by hand, with the table of the surface between its marks."""
    text = (HERE / "consumer.md").read_text(encoding="utf-8")
    before, begin, rest = text.partition("<!-- from docs/surface.py -->\n")
    _, end, after = rest.partition("<!-- to here -->\n")
    assert begin, "the marks are gone"
    assert end, "the marks are gone"
    return f"{before}{begin}\n{surface.table()}\n{end}{after}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    drifted = []
    for name, page in _PAGES.items():
        text = page()
        path = HERE / name
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(name)
    if drifted:
        print(f"out of date, run docs/generate.py: {', '.join(drifted)}", file=sys.stderr)
    return 1 if drifted else 0


_PAGES = {
    "consumer.md": consumer,
    "configs.md": configs,
    "failures.md": failures,
    "metrics.md": metrics,
    "spark-options.md": spark_options,
}


if __name__ == "__main__":
    sys.exit(main())
