import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from confluent_kafka import Producer

from kafka_remote_client.cli.app import app
from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.shim import effective_settings, serve
from kafka_remote_client.cli.shim_sources import read_config_file
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.settings import SHIM_SETTINGS
from tests.support.certificates import Authority
from tests.support.mock_cluster import mock_cluster
from tests.support.processes import process_group

pytestmark = pytest.mark.embedded


def next_line(lines: Iterable[str], text: str) -> str:
    """Returns the next line with that text; "" if the process ended without it."""
    return next((line for line in lines if text in line), "")


def brokers_of(settings: dict[str, str]) -> dict[int, Any]:
    """Returns the brokers that a plain client sees. pytest shows the client's log if the test fails."""
    log = logging.getLogger("plain client")
    log.setLevel(logging.DEBUG)
    producer = Producer({"debug": "broker,protocol", **settings}, logger=log)
    try:
        return dict(producer.list_topics(timeout=60).brokers)
    finally:
        producer.poll(0)  # hands over the log


def test_a_remark_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a log line of another thread could come between the remark and the end of its line."""
    written: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stderr", Stream())
    remark("clients connect to 127.0.0.1:9192")
    assert written == ["kafka-remote: clients connect to 127.0.0.1:9192\n"]


@pytest.mark.parametrize("tls", [False, True])
def test_serves_until_it_is_stopped(tmp_path: Path, tls: bool) -> None:
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
        settings = tmp_path / "shim.toml"
        settings.write_text("")
        command += ["--config", str(settings), *options, "--output", "json"]
        with process_group(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            address = next_line(process.stderr, "clients connect to").rsplit(" ", 1)[1].strip()
            origin = next_line(process.stderr, "segments are served at").rsplit(" ", 1)[1]
            assert origin.startswith("https:" if tls else "http:")
            assert json.loads(process.stdout.readline()) == {
                "started": {"bootstrap_servers": address, "origin_url": origin.strip(), "management_url": None}
            }
            assert brokers_of({"bootstrap.servers": address, **trusting})
            os.kill(process.pid, signal.SIGHUP)
            assert next_line(process.stderr, "settings reloaded").endswith("settings reloaded\n")
            settings.write_text("url_ttl = -1")
            os.kill(process.pid, signal.SIGHUP)
            assert next_line(process.stderr, "settings not reloaded: url_ttl must be")
            settings.write_text("url_ttl = 60")
            os.kill(process.pid, signal.SIGHUP)
            assert next_line(process.stderr, "these need a restart: url_ttl")
            os.kill(process.pid, signal.SIGTERM)
            last = process.stderr.read()
            stopped = json.loads(process.stdout.read())["stopped"]
            assert process.wait(30) == 0
    assert f"connections {stopped['connections']}" in last


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_below_the_log_stops_no_shim(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from kafka_remote_client.cli.main import run; run()", "shim", "--output", "json"]
    command += ["--bootstrap-servers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--store", tmp_path.as_uri()]
    with (
        Path("/dev/full").open("wb") as full,
        process_group(command, stdout=subprocess.PIPE, stderr=full, text=True) as process,
    ):
        assert process.stdout is not None
        assert "started" in json.loads(process.stdout.readline())
        os.kill(process.pid, signal.SIGHUP)
        os.kill(process.pid, signal.SIGTERM)
        assert "stopped" in json.loads(process.stdout.read())
        assert process.wait(30) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_below_the_output_is_not_an_address_in_use(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from kafka_remote_client.cli.main import run; run()", "shim", "--output", "json"]
    command += ["--bootstrap-servers", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--store", tmp_path.as_uri()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert done.stderr.splitlines()[-1] == "kafka-remote: standard output cannot be written: No space left on device"
    assert done.returncode == 1


def test_lines_of_a_json_log_are_all_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    config = ShimConfig("127.0.0.1:1", log_format="json", management_listen="127.0.0.1:0")
    serve(lambda: config, remark, lambda: False, OutputFormat.TEXT)
    messages = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert any(message.startswith("clients connect to 127.0.0.1:") for message in messages)
    assert any(message.startswith("management pages are at http://127.0.0.1:") for message in messages)
    assert "stopping after requests in progress are answered" in messages
    assert messages[-1].startswith("aborted_probes 0, ")


def test_a_stop_in_order_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of health would call it "not ready: the shim is stopping"."""
    events: list[str] = []

    @contextmanager
    def watched(*_: object) -> Iterator[None]:
        yield
        events.append("health is no longer logged")

    monkeypatch.setattr("kafka_remote_client.cli.shim.HealthLog", watched)
    monkeypatch.setattr(Shim, "drain", lambda _shim: events.append("drains"))
    serve(lambda: ShimConfig("127.0.0.1:1"), lambda _line: None, lambda: False, OutputFormat.TEXT)
    assert events == ["health is no longer logged", "drains"]


def reloaded(monkeypatch: pytest.MonkeyPatch, then: ShimConfig | Exception) -> list[str]:
    """Returns the lines about settings of a shim that reads ``then`` at its one reload."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    known: list[ShimConfig | Exception] = [then, ShimConfig("127.0.0.1:1")]

    def read() -> ShimConfig:
        found = known.pop()
        if isinstance(found, Exception):
            raise found
        return found

    tells = iter((True, False))
    counters = serve(read, lambda _line: None, lambda: next(tells), OutputFormat.TEXT)
    assert counters["connections_open"] == 0, "it served until it was told to stop"
    return [line for line in stream.getvalue().splitlines() if "settings" in line]


def test_a_refused_reload_is_one_line_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ShimConfig("127.0.0.1:1", broker_settings={"sasl.username": "me"})
    (line,) = reloaded(monkeypatch, refused)
    assert line.split(" ", 1)[1].startswith(
        "WARNING kafka_remote_client.cli.shim settings not reloaded: sasl.username is not a supported broker setting"
    )


def test_a_reload_that_fails_in_a_plugin_does_not_end_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = reloaded(monkeypatch, RuntimeError("canary"))
    assert line.endswith("settings not reloaded: unexpected RuntimeError")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "nowhere"], "not host:port"),
        (["--listen", "127.0.0.1:0", "--url-ttl", "100000"], "url_ttl must be a number between 1 and 900"),
        (["--listen", "127.0.0.1:0", "--layout", "other"], "unknown layout"),
        (["--listen", "127.0.0.1:0", "--key-prefix", "p/"], "supports no key prefix"),
        (["--listen", "127.0.0.1:0", "--layout", "aiven", "--encryption-key", "key1=/none"], "cannot be read"),
        (["--listen", "192.0.2.1:1"], "cannot listen"),
        (["--listen", "127.0.0.1:0", "--broker-setting", "ssl.ca.location"], "--broker-setting must have the form KEY=VALUE"),
        (["--listen", "127.0.0.1:0", "--broker-setting", "sasl.username=me"], "is not a supported broker setting"),
        (["--listen", "127.0.0.1:0", "--ssl-key-password-file", "/none"], "/none cannot be read: No such file"),
        (["--listen", "127.0.0.1:0", "--ssl-certificate", "/none"], "the listener's certificate cannot be used"),
        (["--listen", "127.0.0.1:0", "--config", "/none"], "/none cannot be read"),
        (["--node-ids", "1"], "missing settings: --listen"),
        (["--listen", "127.0.0.1:0", "--origin-https"], "TLS needs a certificate: set ssl_certificate"),
    ],
)
def test_invalid_arguments_exit_with_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["shim", "--bootstrap-servers", "127.0.0.1:1", "--store", tmp_path.as_uri(), *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_each_setting_has_an_option_that_other_sources_may_fill() -> None:
    command = typer.main.get_command(app).commands["shim"]
    options = {option.name: option for option in command.params}
    assert options.keys() == SHIM_SETTINGS.keys() | {"config_file", "check", "output"}
    for name, setting in SHIM_SETTINGS.items():
        assert options[name].opts == [setting.flag]
        assert not options[name].required
        assert options[name].default is None
        assert options[name].help.startswith(setting.doc.removesuffix("."))


def test_effective_settings_hide_secrets_and_can_be_read_again(tmp_path: Path) -> None:
    config = ShimConfig(
        "broker:9092",
        signing_key=b"canary" * 4,
        ssl_key_password="canary",
        node_ids=(1, 2),
        metadata_consumer={"sasl.password": "canary", "sasl.username": "me"},
    )
    lines = [f"{name} = {value}" for name, value in effective_settings(config)]
    assert not any("canary" in line for line in lines)
    assert "url_ttl = 120.0" in lines
    assert 'metadata_consumer."sasl.password" = "<hidden>"' in lines
    (tmp_path / "shim.toml").write_text("\n".join(lines))
    again = read_config_file(str(tmp_path / "shim.toml"))
    assert (again["node_ids"], again["metadata_consumer"]["sasl.username"]) == ((1, 2), "me")


def test_effective_settings_show_patterns_in_matching_order(tmp_path: Path) -> None:
    policies = {"z.grant": "never", "a.url_ttl": 60, "*.grant": "range"}
    config = ShimConfig("broker:9092", topic_policies=policies)
    lines = [f"{name} = {value}" for name, value in effective_settings(config)]
    (tmp_path / "shim.toml").write_text("\n".join(lines))
    assert list(read_config_file(str(tmp_path / "shim.toml"))["topic_policies"].items()) == list(policies.items())


def test_check_refuses_what_a_start_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["--store", tmp_path.as_uri(), "--origin-listen", "0.0.0.0:0"]
    with pytest.raises(SystemExit) as stopped:
        run(["shim", "--bootstrap-servers", "127.0.0.1:1", "--listen", "127.0.0.1:0", *wide, "--check"])
    assert stopped.value.code == 2
    assert "loopback addresses only" in capsys.readouterr().err


@pytest.mark.parametrize(("sound", "status", "output"), [(True, 0, "text"), (False, 1, "text"), (False, 1, "json")])
def test_check_prints_the_settings_and_has_a_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sound: bool, status: int, output: str
) -> None:
    with mock_cluster("metadata", [b"one"]) as (host, port):
        tier = tmp_path / "tier"
        tier.mkdir()
        if not sound:
            (tier / "kafka-tiered-storage").mkdir()
            (tier / "kafka-tiered-storage" / "else").write_text("here")
        lines = [f'bootstrap_servers = "{host}:{port}"', 'listen = "127.0.0.1:0"', 'metadata_topic = "metadata"']
        (tmp_path / "shim.toml").write_text("\n".join([*lines, f'store = "{tier.as_uri()}"']))
        with pytest.raises(SystemExit) as stopped:
            run(["shim", "--config", str(tmp_path / "shim.toml"), "--check", "--url-ttl", "60", "--output", output])
    out, err = capsys.readouterr()
    assert stopped.value.code == status
    assert ("has a name of the layout" in err) is not sound
    if output == "text":
        assert "url_ttl = 60.0\n" in out
    else:
        shown = json.loads(out)
        assert shown["settings"]["url_ttl"] == 60
        assert [f"kafka-remote: {finding}" for finding in shown["findings"]] == err.splitlines()
