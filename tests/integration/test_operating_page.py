"""docs/operating-the-shim.md: its blocks run in one shell in order, with a SCRAM broker with ACLs and MinIO."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.support.artifacts import ROOT
from tests.support.ports import HOST, free_ports
from tests.support.s3_server import S3Server
from tests.support.scenario import write_wide_topic
from tests.support.scram_broker import ScramBroker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

PAGE = (ROOT / "docs/operating-the-shim.md").read_text()
RECORDS = 1200
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_METADATA = "__remote_log_metadata"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ScramBroker]:
    with ScramBroker(tmp_path / "broker") as running:
        for user in ("shim", "app"):
            running.add_user(user)
        write_wide_topic(running.broker, "orders")
        running.allow("shim", AclOperation.READ, ResourceType.TOPIC, _METADATA)
        running.allow("shim", AclOperation.DESCRIBE, ResourceType.TOPIC, _METADATA)
        running.allow("app", AclOperation.READ, ResourceType.TOPIC, "orders")
        running.allow("app", AclOperation.READ, ResourceType.GROUP, "nightly-report")
        yield running


@pytest.fixture
def store(tmp_path: Path, broker: ScramBroker) -> Iterator[S3Server]:
    """MinIO with the broker's tier in the bucket of the page."""
    root = broker.broker.store_directory
    (tmp_path / "s3").mkdir()
    with S3Server(tmp_path / "s3", access_key="shim-access-key", secret_key="shim-secret-key") as server:
        server.client.create_bucket(Bucket="tier")
        files = (path for path in root.rglob("*") if path.is_file())
        server.put("tier", ((path.relative_to(root).as_posix(), path.read_bytes()) for path in files))
        yield server


def script(stand_ins: dict[str, str]) -> str:
    """Returns all blocks as one script for a shell; the output of a command follows a line ``== COMMAND``."""
    page = PAGE
    for stand_in, real in stand_ins.items():
        page = page.replace(stand_in, real)
    lines = ["set -eo pipefail", "trap 'kill $(cat shim.pid) 2> /dev/null || true' EXIT"]
    for block in _BLOCK.finditer(page):
        if block["language"] == "toml":
            lines += [f"printf %s {shlex.quote(block['text'])} > shim.toml"]
        elif block["language"] == "python":
            lines += [f"printf %s {shlex.quote(block['text'])} > page.py", "echo '== python'", "python -X dev page.py"]
        else:
            commands = [line.removeprefix("$ ") for line in block["text"].splitlines()]
            for command in commands:
                if not command.startswith("pip "):
                    lines += [f"echo {shlex.quote('== ' + command)}", command]
    return "\n".join(lines) + "\n"


@pytest.mark.fault("S15")
def test_the_page_works_from_installation_to_the_audit_log(broker: ScramBroker, store: S3Server, tmp_path: Path) -> None:
    listen, management, base = free_ports(3)
    stand_ins = {
        "localhost:9092": broker.bootstrap_servers,
        "localhost:9192": f"{HOST}:{listen}",
        "localhost:9180": f"{HOST}:{management}",
        "node_port_base = 9200": f"node_port_base = {base - 1}",
        "localhost:9000": store.authority,
    }
    directory = tmp_path / "operator"
    directory.mkdir()
    search_path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", script(stand_ins)],
        cwd=directory,
        env={"PATH": search_path, "HOME": str(directory), "AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    log = directory / "shim.log"
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:], log.read_text()[-3000:] if log.exists() else "")
    printed = {part.partition("\n")[0]: part.partition("\n")[2] for part in done.stdout.split("== ")[1:]}

    def of(text: str) -> str:
        (found,) = [output for command, output in printed.items() if text in command]
        return found

    assert of("/readyz") == of("/tierz") == "ok\n"
    assert "sasl.password" in of("--check")
    said = re.search(r"^(\d+) records, (\d+) of them from the store$", of("python"), re.MULTILINE)
    assert said is not None, of("python")
    assert int(said[1]) == RECORDS
    assert 0 < int(said[2]) <= RECORDS
    assert f'client="nightly-report@{HOST}",topic="orders"' in of("/metrics")
    assert len(of("audit").splitlines()) > 0
    assert "Verify return code: 0 (ok)" in of("s_client")
    shown = of("--check") + of("/metrics") + log.read_text()
    assert not [secret for secret in ("shim-password", "app-password", "shim-secret-key") if secret in shown]


def test_the_page_names_existing_extras_and_fields() -> None:
    (extras,) = re.findall(r"kafka-remote-client\[([a-z0-9,]+)\]", PAGE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
