"""examples/observability: dashboard and rules name only metrics that consumers, the shim and Kafka export."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.exporters.prometheus import FetchCollector
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.exposition import GAUGES, exposition
from kafka_remote_client.shim.shim_tier import ShimTier
from tests.packaging.tree import ROOT
from tests.support.metered import MeteredClient
from tests.support.promtool import PROMTOOL

FOLDER = ROOT / "examples" / "observability"
RULES = FOLDER / "alerts.yml"
COUNTED = re.compile(r'\.add\(f?"([a-z_]+(?:\.)?)')
NAMES = re.compile(r"\bkafka_\w+")
UNITS = {"bytes", "Bps", "cps", "ms", "percentunit", "reqps", "s", "short"}
OF_KAFKA = ("RemoteFetchBytesPerSec", "RemoteFetchRequestsPerSec", "RemoteFetchErrorsPerSec", "RemoteCopyLagBytes")
"""MBeans of Kafka's RemoteStorageMetrics."""


def samples_of(page: str) -> set[str]:
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}


def consumer_page() -> str:
    client, collector, registry = MeteredClient(), FetchCollector(), CollectorRegistry()
    client.counted.fallback("timeout")
    client.counted.error("timeout")
    collector.add(client, "one")
    registry.register(collector)
    return generate_latest(registry).decode()


def of_consumers() -> set[str]:
    families = {family.name for family in FetchCollector().describe()}
    return samples_of(consumer_page()) | {name for name in families if "_partition_" in name}


def shim_page(directory: Path) -> str:
    counters = Counters()
    for source in (ROOT / "kafka_remote_client" / "shim").glob("*.py"):
        for name in COUNTED.findall(source.read_text()):
            counters.add(f"{name}why" if name.endswith(".") else name)
    tier = ShimTier(ShimConfig(bootstrap_servers="127.0.0.1:1", store=directory.as_uri()), counters, SystemClock())
    numbers = counters.snapshot() | dict.fromkeys(GAUGES, 0) | tier.metrics()
    return exposition(numbers, counters.lookups.snapshot(), counters.granted.snapshot()).decode()


def of_kafka() -> set[str]:
    names = set()
    rules = yaml.safe_load((FOLDER / "jmx-exporter.yml").read_text())["rules"]
    for bean in OF_KAFKA:
        attribute = "Count" if bean.endswith("PerSec") else "Value"
        shown = f"kafka.server<type=BrokerTopicMetrics, name={bean}, topic=orders><>{attribute}"
        rule, found = next((one, match) for one in rules if (match := re.fullmatch(one["pattern"], shown)))
        names.add(rule["name"].replace("$1", found[1]).lower())
    return names


def queries(panels: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def test_dashboard_and_rules_name_only_exported_metrics(tmp_path: Path) -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert dashboard["schemaVersion"] >= 38
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in panels} <= UNITS
    variables = [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    expressions = queries(panels) + variables + [rule["expr"] for rule in rules]
    exported = of_consumers() | samples_of(shim_page(tmp_path)) | of_kafka()
    for expression in expressions:
        named = set(NAMES.findall(expression))
        assert named, expression
        assert named <= exported, named - exported


def test_each_alert_says_what_happens_and_how_severe_it_is() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"].keys() == {"summary", "description"}


if PROMTOOL:

    def test_promtool_accepts_the_rules_and_their_tests() -> None:
        for command in (["check", "rules", str(RULES)], ["test", "rules", str(FOLDER / "alerts_test.yml")]):
            subprocess.run([str(PROMTOOL), *command], check=True, timeout=60)

    def test_promtool_accepts_all_metrics_of_consumers_and_shim(tmp_path: Path) -> None:
        for page in (consumer_page(), shim_page(tmp_path)):
            subprocess.run([str(PROMTOOL), "check", "metrics"], input=page, text=True, check=True, timeout=60)


def test_each_alert_is_shown_to_fire_and_to_be_quiet() -> None:
    alerts = [rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    shown = [
        one for test in yaml.safe_load((FOLDER / "alerts_test.yml").read_text())["tests"] for one in test["alert_rule_test"]
    ]
    assert sorted(one["alertname"] for one in shown if "exp_alerts" in one) == sorted(alerts)
    assert sorted(one["alertname"] for one in shown if "exp_alerts" not in one) == sorted(alerts)
