"""Writes the pages of docs/ that are tables, from the code. ``python docs/generate.py --check`` fails on drift instead."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import api_page
import campaigns
import plots
import segment_life
import surface
import texts
from kafka_remote_fetchers import _settings as fetcher_table
from typer.main import get_group

from kafka_remote_client.cli.app import app
from kafka_remote_client.cli.command_group import VERBS
from kafka_remote_client.fetch.policy import POLICY
from kafka_remote_client.metrics import BY_BOUND, BY_CAUSE, BY_PARTITION, COUNTERS, METRICS
from kafka_remote_client.registry import FETCHERS, fetcher_names
from kafka_remote_client.settings import FETCHER_PREFIX, SETTINGS, Setting
from kafka_remote_client.shim.settings import SHIM_SETTINGS, ShimSetting
from kafka_remote_client.spark.options import java_options, security
from kafka_remote_client.spark.options.option_table import OPTIONS, Option

HERE = Path(__file__).parent


def configs() -> str:
    """The table of all settings."""
    lines = [
        "# Settings",
        "",
        "Set these in the consumer's configuration, together with librdkafka's settings. The first five are KIP-1254's.",
        "Generated from `kafka_remote_client/settings.py`.",
        "",
        "| name | type | default | unit | bounds | what it does, and what changing it costs |",
        "|---|---|---|---|---|---|",
        *(f"| `{setting.name}` {_cells(setting)}" for setting in SETTINGS),
        "",
        "## Settings of the fetchers",
        "",
        "The second column names the fetchers that read a setting; with another fetcher it is an error. Your own fetcher",
        "declares its own settings ([plugins.md](plugins.md)). Generated from `fetchers/kafka_remote_fetchers/_settings.py`.",
        "",
        "| name | fetchers | type | default | what it does, and what changing it costs |",
        "|---|---|---|---|---|",
        *map(_fetcher_row, fetcher_table.SETTINGS.values()),
    ]
    return "\n".join(lines) + "\n"


def _cells(setting: Setting) -> str:
    bounds = ", ".join(setting.choices) if setting.minimum is None else f"{setting.minimum} to {setting.maximum}"
    return f"| {setting.type.__name__} | {_default(setting)} | {setting.unit} | {bounds} | {setting.doc} |"


def _default(setting: Setting) -> str:
    if setting.default is None or setting.type in {dict, tuple}:
        return "null" if setting.default is None else ""
    return f"{setting.default:g}" if setting.type is float else str(setting.default).lower()


def _fetcher_row(setting: Setting) -> str:
    readers = [name for name in fetcher_names() if setting.name in _entry_point(FETCHERS, name).settings]
    return f"| `{setting.name}` | {', '.join(readers)} | {setting.type.__name__} | {_default(setting)} | {setting.doc} |"


def _entry_point(group: str, name: str) -> Any:
    (found,) = entry_points(group=group, name=name)
    return found.load()


def shim_settings() -> str:
    """The table of the shim's settings."""
    lines = [
        "# Settings of the shim",
        "",
        "The options of `kafka-remote shim`, the names in its configuration file, with the prefix `KAFKA_REMOTE_SHIM_` its",
        "environment variables, and the fields of `ShimConfig` in Python. How a shim works: [shim.md](shim.md). Generated from",
        "`kafka_remote_client/shim/settings.py`.",
        "",
        f"The command has no default for {', '.join(f'`{one.name}`' for one in SHIM_SETTINGS.values() if one.required)}.",
        "",
        "| `ShimConfig` | flag | type | default | unit | bounds | what it does, and what changing it costs |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_shim_row(setting) for setting in SHIM_SETTINGS.values())]) + "\n"


def _shim_row(setting: ShimSetting) -> str:
    return f"| `{setting.name}` | `{setting.flag}` {_cells(setting)}"


def stores() -> str:
    """The page about stores, which is written by hand, with the options of each kind between its marks."""
    text = (HERE / "stores.md").read_text(encoding="utf-8")
    for kind, shared in (("s3", ("allow.http", "ssl.ca.location")), ("gcs", ("allow.http",)), ("azure", ("allow.http",))):
        named = [(name.removeprefix(FETCHER_PREFIX), setting) for name, setting in fetcher_table.SETTINGS.items()]
        chosen = [(name, setting) for name, setting in named if name.startswith(f"{kind}.") or name in shared]
        chosen.sort(key=lambda pair: pair[0] in shared)
        table = ["| option | default | |", "|---|---|---|", *(f"| `{n}` | {_default(s)} | {s.doc} |" for n, s in chosen)]
        before, begin, rest = text.partition(f"<!-- options: {kind} -->\n")
        _, end, after = rest.partition("<!-- to here -->\n")
        assert begin, f"the mark of {kind} is gone"
        assert end, f"the mark behind {kind} is gone"
        text = "".join([before, begin, "\n", "\n".join(table), "\n\n", end, after])
    return text


def metrics() -> str:
    """The table of all metrics."""
    lines = [
        "# Metrics",
        "",
        "`Consumer.metrics()` returns these as plain numbers. A metric by cause is a mapping from cause to count. A metric by",
        "partition is a mapping from `topic-number` to a number, for assigned partitions with a known value. On the broker",
        "path the lag is that of the last check (`fetch.remote.recheck.interval.ms`). The client asks for the local log start",
        "when a direct read starts, and again when the read reaches it. Counters only increase.",
        "",
        "The statistics that `stats_cb` gets contain all metrics under the key `remote_fetch`. In Prometheus they are",
        "`kafka_remote_fetch_request_total` and so on, with the labels `client` and `cause` (empty for metrics without one),",
        "or `client`, `topic` and `partition`. In OpenTelemetry they are `kafka.remote-fetch-request-total` and so on, with",
        "attributes of these names.",
        "",
        "Histograms are in seconds. Each is a mapping from upper bound (inclusive) to cumulative count, `-bucket`, and a sum.",
        "In Prometheus they are histograms such as `kafka_remote_fetch_latency_seconds`, with the label `client`.",
        "OpenTelemetry has no observable histogram: there they are two counters, and the one by bound has the attribute `le`.",
        "",
        "Generated from `kafka_remote_client/metrics.py`.",
        "",
        "[examples/observability](../examples/observability/README.md) has a dashboard and alert rules for these metrics.",
        "",
        "| name | kind | by | meaning |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_metric_row(name, meaning) for name, meaning in METRICS.items())]) + "\n"


def _metric_row(name: str, meaning: str) -> str:
    kind = "counter" if name in COUNTERS else "gauge"
    by = "cause" if name in BY_CAUSE else "partition" if name in BY_PARTITION else "bound" if name in BY_BOUND else ""
    return f"| `{name}` | {kind} | {by} | {meaning} |"


_YES_NO = {True: "yes", False: "no"}


def failures() -> str:
    """The table of what follows a failure."""
    lines = [
        "# Failures",
        "",
        "The table in `kafka_remote_client/fetch/policy.py` decides what follows a failure; this page is generated from it.",
        "`remote-fetch-errors-total` and `remote-fetch-fallbacks-total` count by cause. If the first action has no budget",
        "left, or none at all, the broker continues from the exact next offset. [reliability.md](reliability.md) lists the",
        "faults, and the tests that inject them.",
        "",
        "| cause | symptom | first action | budget | counts against the store |",
        "|---|---|---|---|---|",
    ]
    rows = (
        f"| `{rule.error.cause}` | {rule.symptom} | {rule.first_action.value} | {rule.budget.value} | {_YES_NO[rule.counts]} |"
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
        '## Options of `format("kafka")`',
        "",
        "Names, values and defaults are Spark's own. The table has all options of Spark's source; a test compares them. Names",
        "are not case-sensitive.",
        "",
        *_OPTIONS_HEAD,
        *(_option_row(option) for option in OPTIONS if option not in ours),
        "",
        "As in Spark, batch queries ignore streaming options with a warning, and streaming queries refuse batch options.",
        "",
        "## Options of this source",
        "",
        "You can also set every setting of [configs.md](configs.md) under its own name, and every librdkafka setting as",
        "`remote.librdkafka.<setting>`. Here `fetch.remote.enabled` is true, `fetch.remote.location.timeout.ms` is 10000, and",
        "the default fetcher is `presigned` with the location source `broker`.",
        "",
        *_OPTIONS_HEAD,
        *map(_option_row, ours),
        "",
        "## `kafka.*`: settings of the Java client",
        "",
        "| option | librdkafka setting |",
        "|---|---|",
        *(f"| `kafka.{name}` | `{kind.name}` |" for name, kind in sorted(java_options.TRANSLATED.items())),
        "| `kafka.isolation.level` | `isolation.level`; `read_uncommitted` by default, as in Spark |",
        "| `kafka.default.api.timeout.ms` | none; the driver's limit for one request, and for a partition to get a leader |",
        "| `kafka.security.protocol`, `kafka.sasl.*`, `kafka.ssl.*` | see [spark.md](spark.md#security) |",
        "",
        "The source ignores all others with one warning, because they have no equivalent: settings of groups, metrics and",
        f"Java's tuning, and of security {', '.join(f'`kafka.{name}`' for name in sorted(security.IGNORED))}.",
        "",
        "| option | why it is an error |",
        "|---|---|",
        *(f"| `kafka.{name}` | {why} |" for name, why in sorted({**java_options.REFUSED, **security.REFUSED}.items())),
        "| any other `kafka.sasl.*`, `kafka.ssl.*`, `kafka.security.*` | unknown security settings are never ignored |",
    ]
    return "\n".join(lines) + "\n"


_OPTIONS_HEAD = ("| option | queries | default | meaning | what differs from Spark's own source |", "|---|---|---|---|---|")


def _option_row(option: Option) -> str:
    default = option.default if option.streaming_default is None else f"{option.default}; streaming: {option.streaming_default}"
    return f"| `{option.name}` | {option.scope.value} | {default} | {option.doc} | {option.differs} |"


def consumer() -> str:
    """The page about the consumer, which is written by hand, with the table of the surface between its marks."""
    return _filled("consumer.md", "docs/surface.py", surface.table())


def command_line() -> str:
    """The page about the command line, which is written by hand, with the table of the verbs between its marks."""
    commands = get_group(app).commands
    rows = ["| verb | what it does | needs |", "|---|---|---|"]
    for name, verb in VERBS.items():
        what = str(commands[name].help).partition(".")[0]
        more = f" ([{verb.page.partition('#')[0]}]({verb.page}))" if verb.page else ""
        rows.append(f"| `{name}` | {what[0].lower()}{what[1:]}{more} | {verb.needs} |")
    return _filled("cli.md", "kafka_remote_client/cli/command_group.py", "\n".join(rows) + "\n")


def _filled(name: str, source: str, table: str) -> str:
    """A page that is written by hand, with ``table`` between its marks, which name the source of it."""
    before, begin, rest = (HERE / name).read_text(encoding="utf-8").partition(f"<!-- from {source} -->\n")
    _, end, after = rest.partition("<!-- to here -->\n")
    assert begin, "the marks are gone"
    assert end, "the marks are gone"
    return f"{before}{begin}\n{table}\n{end}{after}"


def with_figures(name: str) -> str:
    """A page that is written by hand, with tables of the figures in ``ledger.jsonl`` between its marks."""
    return campaigns.filled((HERE / name).read_text(encoding="utf-8"), campaigns.entries())


def life_of_a_segment() -> str:
    """The page about segments, which is written by hand, with what the model does between its marks."""
    return segment_life.filled((HERE / "life-of-a-segment.md").read_text(encoding="utf-8"))


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
    "api.md": api_page.api_page,
    "cli.md": command_line,
    "consumer.md": consumer,
    "configs.md": configs,
    "failures.md": failures,
    "life-of-a-segment.md": life_of_a_segment,
    "metrics.md": metrics,
    "reliability.md": partial(with_figures, "reliability.md"),
    "shim-settings.md": shim_settings,
    "spark-options.md": spark_options,
    "stores.md": stores,
    "testing.md": partial(with_figures, "testing.md"),
    "texts.txt": texts.extracted,
    **{f"plots/{name}": partial(plots.drawn, name) for name in plots.PLOTS},
}


if __name__ == "__main__":
    sys.exit(main())
