"""examples/deploy: each file has the form that its tool requires, and the shim accepts the settings in it."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kafka_remote_client.cli.shim_sources import read_config_file, read_environment, shim_config
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.snapshot_folder import SnapshotFolder
from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.health import Health
from tests.packaging.tree import ROOT

DEPLOY = ROOT / "examples" / "deploy"
INSTRUCTIONS = {"FROM", "RUN", "COPY", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
TEXT, NUMBER, TEXTS = {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "string"}}


def of(required: str = "", **properties: Any) -> dict[str, Any]:
    """Returns the schema of an object with these properties and no others."""
    return {"type": "object", "properties": properties, "required": required.split(), "additionalProperties": False}


def list_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema, "minItems": 1}


def mapping(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema}


SERVICE = of(
    image=TEXT,
    build=of("context dockerfile", context=TEXT, dockerfile=TEXT),
    command=TEXTS,
    entrypoint=TEXTS,
    environment=mapping(TEXT),
    ports=TEXTS,
    volumes=TEXTS,
    restart={"enum": ["on-failure", "unless-stopped"]},
    stop_grace_period={"type": "string", "pattern": "^[0-9]+s$"},
    healthcheck=of("test", test=TEXTS, interval=TEXT, timeout=TEXT, retries=NUMBER),
    depends_on={
        "anyOf": [
            TEXTS,
            mapping(of("condition", condition={"enum": ["service_healthy", "service_completed_successfully"]})),
        ]
    },
)
COMPOSE = of("services volumes", services=mapping(SERVICE), volumes=mapping(of()))

META = of("name", name=TEXT, labels=mapping(TEXT), annotations=mapping(TEXT))
PROBE = of(
    "httpGet",
    httpGet=of("path port", path=TEXT, port=NUMBER),
    periodSeconds=NUMBER,
    timeoutSeconds=NUMBER,
    failureThreshold=NUMBER,
)
CONTAINER = of(
    "name image ports startupProbe readinessProbe livenessProbe resources securityContext",
    name=TEXT,
    image=TEXT,
    args=TEXTS,
    envFrom=list_of(of("secretRef", secretRef=of("name", name=TEXT))),
    ports=list_of(of("name containerPort", name=TEXT, containerPort=NUMBER)),
    startupProbe=PROBE,
    readinessProbe=PROBE,
    livenessProbe=PROBE,
    resources=of("requests limits", requests=mapping(TEXT), limits=mapping(TEXT)),
    securityContext=of(
        runAsNonRoot={"const": True},
        runAsUser=NUMBER,
        allowPrivilegeEscalation={"const": False},
        readOnlyRootFilesystem={"const": True},
        capabilities=of("drop", drop=TEXTS),
    ),
    volumeMounts=list_of(of("name mountPath", name=TEXT, mountPath=TEXT, readOnly={"type": "boolean"})),
)
POD = of(
    "containers",
    terminationGracePeriodSeconds=NUMBER,
    containers=list_of(CONTAINER),
    volumes=list_of(of("name", name=TEXT, configMap=of("name", name=TEXT), emptyDir=of("sizeLimit", sizeLimit=TEXT))),
)
TEMPLATE = of("metadata spec", metadata=of("labels", labels=mapping(TEXT), annotations=mapping(TEXT)), spec=POD)
KINDS: dict[str, dict[str, Any]] = {
    "Secret": {"apiVersion": {"const": "v1"}, "type": {"const": "Opaque"}, "stringData": mapping(TEXT)},
    "ConfigMap": {"apiVersion": {"const": "v1"}, "data": mapping(TEXT)},
    "Service": {
        "apiVersion": {"const": "v1"},
        "spec": of(
            "selector ports",
            selector=mapping(TEXT),
            ports=list_of(of("name port targetPort", name=TEXT, port=NUMBER, targetPort=NUMBER)),
        ),
    },
    "Deployment": {
        "apiVersion": {"const": "apps/v1"},
        "spec": of(
            "replicas selector template",
            replicas=NUMBER,
            selector=of("matchLabels", matchLabels=mapping(TEXT)),
            strategy=of("type", type=TEXT, rollingUpdate=of(maxUnavailable=NUMBER, maxSurge=NUMBER)),
            template=TEMPLATE,
        ),
    },
}


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_PASSWORD", "hush")


@pytest.fixture
def settings() -> ShimConfig:
    return shim_config(read_config_file(str(DEPLOY / "shim.toml")))


@pytest.fixture
def manifest(tmp_path: Path) -> dict[str, Any]:
    """Returns the Kubernetes objects by kind, and the shim's settings under ``settings``."""
    objects = {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}
    for kind, one in objects.items():
        schema = of(" ".join(["kind", "metadata", *KINDS[kind]]), kind={"const": kind}, metadata=META, **KINDS[kind])
        jsonschema.validate(one, schema)
    (tmp_path / "shim.toml").write_text(objects["ConfigMap"]["data"]["shim.toml"])
    return objects | {"settings": shim_config(read_config_file(str(tmp_path / "shim.toml")))}


def ports_of(config: ShimConfig) -> set[int]:
    """Returns the ports that clients connect to."""
    assert config.node_port_base is not None
    return {parse_address(config.listen)[1], *(config.node_port_base + node_id for node_id in config.node_ids)}


def management_port(config: ShimConfig) -> int:
    assert config.management_listen is not None
    return parse_address(config.management_listen)[1]


def pages() -> set[str]:
    nothing: Any = None
    made = Health(alive=nothing, listening=nothing, brokers=nothing, tier=nothing, clock=SystemClock())
    return {*made.pages, "/metrics"}


def test_the_readme_names_each_file() -> None:
    named = set(re.findall(r"\]\(([\w.-]+)\)", (DEPLOY / "README.md").read_text()))
    assert named == {path.name for path in DEPLOY.iterdir()} - {"README.md"}


def test_systemd_accepts_the_unit(settings: ShimConfig, tmp_path: Path) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # names of systemd have capitals
    unit.read_string((DEPLOY / "kafka-remote-shim.service").read_text())
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert shlex.split(service["ExecStart"])[1:] == ["shim", "--config", "/etc/kafka-remote/shim.toml"]
    assert service["ExecReload"].endswith("-HUP $MAINPID")
    assert float(service["TimeoutStopSec"]) > settings.drain_timeout
    assert int(service["LimitNOFILE"]) > 2 * settings.max_connections
    assert settings.metadata_snapshot_dir == f"/var/lib/{service['StateDirectory']}", "the only folder that it may write to"
    assert service["StateDirectoryMode"] == "0700", "the shim refuses a folder that others can write to"
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        return  # the format was checked above
    command = Path(sys.executable).with_name("kafka-remote")
    text = (DEPLOY / "kafka-remote-shim.service").read_text().replace("/opt/kafka-remote/bin/kafka-remote", str(command))
    (tmp_path / "kafka-remote-shim.service").write_text(text)
    done = subprocess.run(
        [verifier, "verify", "--man=no", str(tmp_path / "kafka-remote-shim.service")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    said = [line for line in done.stderr.splitlines() if "kafka-remote-shim" in line]
    assert not said, done.stderr


def test_the_image_runs_the_shim_as_an_unprivileged_user(settings: ShimConfig) -> None:
    text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {instruction for instruction, _ in lines} == INSTRUCTIONS
    last = dict(lines[max(number for number, (instruction, _) in enumerate(lines) if instruction == "FROM") :])
    assert last["USER"] == "10001"
    assert last["STOPSIGNAL"] == "SIGTERM"
    owned = "install --directory --owner shim --mode 0700"
    assert f"{owned} {settings.metadata_snapshot_dir}" in last["RUN"], "a new volume gets owner and mode of the folder"
    assert json.loads(last["ENTRYPOINT"])[1:] == ["shim"]
    assert json.loads(last["CMD"]) == ["--config", "/etc/kafka-remote/shim.toml"]
    assert set(map(int, last["EXPOSE"].split())) == ports_of(settings) | {management_port(settings)}
    (extras,) = re.findall(r"/source\[([a-z0-9,]+)\]", text)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)


def test_the_services_of_compose_match_the_shims_settings(settings: ShimConfig) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    jsonschema.validate(compose, COMPOSE)
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            there = source in compose["volumes"] or (DEPLOY / source).is_file() or source == "./tiered-storage"
            assert there, volume
    shim = services["shim"]
    assert (DEPLOY / shim["build"]["context"] / shim["build"]["dockerfile"]).samefile(DEPLOY / "Containerfile")
    changed = shim_config(read_config_file(str(DEPLOY / "shim.toml")), read_environment(shim["environment"]))
    assert changed.store_options["s3.endpoint.url"] == "http://minio:9000"
    assert {int(port.partition(":")[0]) for port in shim["ports"]} == ports_of(changed) | {management_port(changed)}
    assert int(shim["stop_grace_period"].rstrip("s")) > changed.drain_timeout
    assert f"localhost:{management_port(settings)}/readyz" in shim["healthcheck"]["test"][-1]
    assert changed.upstream == (("kafka", 9092),)
    kept = dict(reversed(volume.split(":")[:2]) for volume in shim["volumes"])
    assert kept[str(changed.metadata_snapshot_dir)] in compose["volumes"], "a container that is made anew keeps it"


def test_the_broker_of_compose_writes_where_the_shim_reads(settings: ShimConfig) -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    lines = (DEPLOY / "server.properties").read_text().splitlines()
    broker = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    backend = "rsm.config.storage."
    assert settings.store == f"s3://{broker[backend + 's3.bucket.name']}"
    assert settings.key_prefix == broker["rsm.config.key.prefix"]
    assert settings.store_options["s3.region"] == broker[backend + "s3.region"]
    assert compose["minio"]["environment"]["MINIO_ROOT_USER"] == broker[backend + "aws.access.key.id"]
    assert compose["minio"]["environment"]["MINIO_ROOT_PASSWORD"] == broker[backend + "aws.secret.access.key"]
    assert settings.node_ids == (int(broker["node.id"]),)
    assert "SASL://kafka:9092" in broker["advertised.listeners"]


def test_a_pod_keeps_the_snapshot_in_a_folder_that_only_it_can_write_to(manifest: dict[str, Any], tmp_path: Path) -> None:
    folder = Path(str(manifest["settings"].metadata_snapshot_dir))
    pod = manifest["Deployment"]["spec"]["template"]["spec"]
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if not one.get("readOnly")]
    (volume,) = [one for one in pod["volumes"] if one["name"] == mount["name"]]
    assert "emptyDir" in volume, "each pod has its own"
    assert folder.parent == Path(mount["mountPath"])
    (tmp_path / "emptyDir").mkdir()
    (tmp_path / "emptyDir").chmod(0o777)  # as Kubernetes creates it, which the shim refuses
    with pytest.raises(ConfigurationError, match="other users can write"):
        SnapshotFolder(tmp_path / "emptyDir")
    SnapshotFolder(tmp_path / "emptyDir" / folder.name).close()


def test_the_objects_of_kubernetes_match_the_shims_settings(manifest: dict[str, Any]) -> None:
    config: ShimConfig = manifest["settings"]
    assert set(manifest) == {*KINDS, "settings"}
    service, deployment = manifest["Service"]["spec"], manifest["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert {one["port"] for one in service["ports"]} == {one["targetPort"] for one in service["ports"]} == ports_of(config)
    assert config.advertised_host == f"{manifest['Service']['metadata']['name']}.example.svc"
    assert deployment["replicas"] > 1
    pod = deployment["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > config.drain_timeout
    (container,) = pod["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in pages()
        assert asked["port"] == management_port(config)
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez", "a broker that is down restarts no shim"
    assert container["readinessProbe"]["timeoutSeconds"] > config.connect_timeout + config.admission_timeout / 2
    annotations = deployment["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] in pages()
    assert int(annotations["prometheus.io/port"]) == management_port(config)
    assert "SHIM_PASSWORD" in manifest["Secret"]["stringData"]
    names = {one["metadata"]["name"] for kind, one in manifest.items() if kind in ("Secret", "ConfigMap")}
    assert {one["secretRef"]["name"] for one in container["envFrom"]} <= names
    assert {one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one} <= names
