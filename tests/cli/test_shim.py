import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_remote_client.cli.main import run
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
        (["--listen", "127.0.0.1:0", "--layout", "other"], "there is no layout"),
        (["--listen", "127.0.0.1:0", "--key-prefix", "p/"], "has no key prefix"),
        (["--listen", "127.0.0.1:0", "--layout", "aiven", "--encryption-key", "key1=/none"], "cannot be read"),
        (["--listen", "192.0.2.1:1"], "cannot listen"),
        (["--listen", "127.0.0.1:0", "--broker-setting", "ssl.ca.location"], "--broker-setting takes KEY=VALUE"),
        (["--listen", "127.0.0.1:0", "--broker-setting", "sasl.username=me"], "is no setting of the connections to brokers"),
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
