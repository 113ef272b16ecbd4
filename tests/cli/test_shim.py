import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from confluent_kafka import Producer

from kafka_remote_client.cli.app import app
from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.shim import shim_config
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.settings import SHIM_SETTINGS
from tests.support.certificates import Authority
from tests.support.mock_cluster import mock_cluster

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize("tls", [False, True])
def test_serves_until_it_is_told_to_stop(tmp_path: Path, tls: bool) -> None:
    options: list[str] = []
    trusting: dict[str, str] = {}
    if tls:
        authority = Authority()
        (tmp_path / "password").write_text("secret\n")
        authority.issue().write(tmp_path / "shim.pem", "secret")
        options = ["--ssl-certificate", str(tmp_path / "shim.pem"), "--ssl-key-password-file", str(tmp_path / "password")]
        options += ["--origin-https", "--broker-setting", "security.protocol=plaintext"]
        trusting = {"security.protocol": "ssl", "ssl.ca.pem": authority.pem}
    with mock_cluster("orders", [b"one"]) as (host, port):
        command = [sys.executable, "-c", "from kafka_remote_client.cli.main import run; run()", "shim"]
        command += ["--bootstrap-servers", f"{host}:{port}", "--listen", "127.0.0.1:0", "--store", tmp_path.as_uri()]
        command += options
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            address = ""
            for line in process.stderr:
                if "clients connect to" in line:
                    address = line.rsplit(" ", 1)[1].strip()
                if "segments are served at" in line:
                    assert line.rsplit(" ", 1)[1].startswith("https:" if tls else "http:")
                    break
            producer = Producer({"bootstrap.servers": address, "log_level": 0, **trusting})
            assert producer.list_topics(timeout=30).brokers
            os.kill(process.pid, signal.SIGTERM)
            last = process.stderr.read()
            assert process.wait(30) == 0
    assert "connections" in last


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "nowhere"], "not host:port"),
        (["--listen", "127.0.0.1:0", "--url-ttl", "100000"], "url_ttl must be a number between 1 and 900"),
        (["--listen", "127.0.0.1:0", "--layout", "other"], "unknown layout"),
        (["--listen", "127.0.0.1:0", "--key-prefix", "p/"], "takes no key prefix"),
        (["--listen", "127.0.0.1:0", "--layout", "aiven", "--encryption-key", "key1=/none"], "cannot be read"),
        (["--listen", "192.0.2.1:1"], "cannot listen"),
        (["--listen", "127.0.0.1:0", "--broker-setting", "ssl.ca.location"], "--broker-setting takes KEY=VALUE"),
        (["--listen", "127.0.0.1:0", "--broker-setting", "sasl.username=me"], "is not a supported broker setting"),
        (["--listen", "127.0.0.1:0", "--ssl-key-password-file", "/none"], "/none cannot be read: No such file"),
        (["--listen", "127.0.0.1:0", "--ssl-certificate", "/none"], "the listener's certificate cannot be used"),
        (["--listen", "127.0.0.1:0", "--origin-https"], "TLS needs a certificate"),
    ],
)
def test_wrong_use_is_told_with_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["shim", "--bootstrap-servers", "127.0.0.1:1", "--store", tmp_path.as_uri(), *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_each_declared_flag_is_an_option_with_the_declared_default() -> None:
    command = typer.main.get_command(app).commands["shim"]  # type: ignore[attr-defined]
    options = {option.name: option for option in command.params}
    flagged = {name: setting for name, setting in SHIM_SETTINGS.items() if setting.flag is not None}
    assert options.keys() == flagged.keys()
    for name, setting in flagged.items():
        assert options[name].opts == [setting.flag]
        assert options[name].required is setting.required
        if not setting.required and setting.type is not dict:
            assert options[name].default == setting.default
        assert options[name].help.startswith(setting.doc.removesuffix("."))


def test_options_become_the_settings_that_they_name(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush\n")
    given = {
        "bootstrap_servers": "broker:9092",
        "store_options": ["s3.region=here"],
        "encryption_keys": ["one=file"],
        "ssl_key_password": str(tmp_path / "password"),
        "metadata_consumer": None,
        "max_connections": 7,
    }
    assert shim_config(given) == ShimConfig(
        "broker:9092",
        store_options={"s3.region": "here"},
        encryption_keys={"one": "file"},
        ssl_key_password="hush",
        max_connections=7,
    )
