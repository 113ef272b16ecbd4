"""Writes docs/configs.md and docs/metrics.md from the code. ``python docs/generate.py --check`` fails on drift instead."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kafka_remote_client.config import SETTINGS, Setting
from kafka_remote_client.metrics import METRICS

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
        "`Consumer.metrics()` gives these as plain numbers; errors and fallbacks as a mapping from cause to count. Made from",
        "`kafka_remote_client/metrics.py`.",
        "",
        "| name | meaning |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| `{name}` | {meaning} |" for name, meaning in METRICS.items())]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    drifted = []
    for name, text in (("configs.md", configs()), ("metrics.md", metrics())):
        path = HERE / name
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(name)
    if drifted:
        print(f"out of date, run docs/generate.py: {', '.join(drifted)}", file=sys.stderr)
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main())
