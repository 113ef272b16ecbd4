"""Settings on a command line: secrets come from files and variables and are refused in arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_remote_client.cli.configuration import read_options
from kafka_remote_client.cli.given_settings import check_consumer_settings, is_secret, parse_settings, read_secret
from kafka_remote_client.cli.main import run
from kafka_remote_client.cli.shim_sources import read_config_file
from kafka_remote_client.errors import ConfigurationError
from tests.support.cli_run import failed

CANARY = "canary-of-a-secret"


def test_settings_are_read_as_they_are_written() -> None:
    assert parse_settings(["a=1", "b=x=y", "a=@2", "c=env:HOME"]) == {"a": "@2", "b": "x=y", "c": "env:HOME"}


def test_a_secret_comes_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "password").write_text(f"{CANARY}\n")
    monkeypatch.setenv("KEY_PASSWORD", "other")
    given = [f"sasl.password=@{tmp_path / 'password'}", "ssl.key.password=env:KEY_PASSWORD"]
    assert parse_settings(given) == {"sasl.password": CANARY, "ssl.key.password": "other"}


def test_a_file_of_settings_may_hold_secrets(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# for the shim\nsasl.password={CANARY}\n\n  sasl.username=me\n")
    assert parse_settings(["sasl.username=you", f"@{file}"]) == {"sasl.password": CANARY, "sasl.username": "me"}


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "windows"
    file.write_bytes(b"\xef\xbb\xbfsasl.username=me\r\nclient.id=app\r\n")
    assert parse_settings([f"@{file}"]) == {"sasl.username": "me", "client.id": "app"}
    file.write_bytes(b"\xef\xbb\xbfcanary\r\n")
    assert parse_settings([f"sasl.password=@{file}"]) == {"sasl.password": "canary"}
    assert read_secret(str(file)) == "canary"


@pytest.mark.parametrize("read", [read_options, read_config_file])
def test_a_toml_file_may_begin_with_a_byte_order_mark(tmp_path: Path, read: Callable[[str], object]) -> None:
    file = tmp_path / "windows.toml"
    file.write_bytes(b"\xef\xbb\xbflayout = 'aiven'\r\n")
    assert read(str(file)) == {"layout": "aiven"}


def test_blanks_around_the_equals_sign_of_a_line_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol = SASL_SSL\nsasl.username\t=\tme \nclient.id =\n")
    found = {"security.protocol": "SASL_SSL", "sasl.username": "me", "client.id": ""}
    assert parse_settings([f"@{file}"]) == found
    assert parse_settings(["client.id= me"]) == {"client.id": " me"}, "an argument is literal"


def test_an_empty_group_id_does_not_end_the_process() -> None:
    check_consumer_settings({"group.id": "", "client.id": "app"})
    with pytest.raises(ConfigurationError, match="librdkafka rejects"):
        check_consumer_settings({"group.id": "", "client.di": "app"})


@pytest.mark.fault("S15")
@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "basic.auth.user.info",
        "schema.registry.basic.auth.user.info",
        "bearer.auth.token",
        "ssl.key.pem",
        "ssl_key",
        "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "azure.account.key",
        "s3.session.token",
    ],
)
def test_a_secret_in_an_argument_is_refused_with_the_alternatives(name: str) -> None:
    assert is_secret(name)
    with pytest.raises(ConfigurationError) as caught:
        parse_settings([f"{name}={CANARY}"], "--option")
    assert CANARY not in str(caught.value)
    assert f"{name}=@FILE, {name}=env:VARIABLE, or --option @FILE" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["sasl.username", "ssl.key.location", "sasl.oauthbearer.token.endpoint.url", "encryption.keys", "s3.profile"]
)
def test_other_settings_are_not_secrets(name: str) -> None:
    assert not is_secret(name)


def test_an_unreadable_file_is_refused_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "lines").write_text(CANARY)
    for given, said in (
        (CANARY, "--x must have the form KEY=VALUE"),
        (f"@{tmp_path / 'lines'}", f"--x: {tmp_path / 'lines'} must have the form KEY=VALUE"),
        (f"@{tmp_path / 'none'}", "cannot be read: No such file"),
        (f"sasl.password=@{tmp_path / 'binary'}", "cannot be read: not UTF-8"),
        ("sasl.password=env:NO_SUCH_VARIABLE_HERE", "--x: sasl.password: the environment variable is not set"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            parse_settings([given], "--x")
        assert said in str(caught.value)
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize("pair", ["secret", "=secret"])
def test_a_setting_without_a_key_is_refused_and_not_shown(pair: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_settings([pair])
    assert "secret" not in str(refused.value)


def test_a_secret_is_its_file_without_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b" word \r\n")
    assert read_secret(str(tmp_path / "secret")) == " word "
    assert read_secret(None) is None
    (tmp_path / "secret").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_secret(str(tmp_path / "secret"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "--store", "file:///", "--store-option"],
        ["dump", "--store", "file:///", "t", "--store-option"],
        ["verify", "--store", "file:///", "--store-option"],
        ["verify", "--store", "file:///", "--bootstrap-server", "127.0.0.1:1", "--metadata-consumer"],
        ["plan", "--option"],
        *[
            ["shim", "--bootstrap-servers", "a:1", "--listen", "127.0.0.1:0", "--store", "file:///", option]
            for option in ("--store-option", "--metadata-consumer", "--broker-setting")
        ],
    ],
)
def test_no_verb_accepts_a_secret_in_an_argument(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run([*arguments, f"sasl.password={CANARY}"])
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert f"{arguments[-1]}: sasl.password is a secret" in printed.err
    assert CANARY not in printed.out + printed.err


@pytest.mark.parametrize("given", ["sasl.username=me\udcff", "sasl.user\udcffname=me"])
def test_setting_that_is_not_utf_8_is_an_error(given: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--consumer: sasl\.user.?name is not UTF-8"):
        parse_settings([given], "--consumer")


def test_secret_of_the_environment_that_is_not_utf_8_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "canary\udcff")
    with pytest.raises(ConfigurationError) as refused:
        parse_settings(["sasl.password=env:SECRET_OF_TEST"], "--consumer")
    assert str(refused.value) == "--consumer: sasl.password is not UTF-8"


@pytest.mark.parametrize(
    "arguments",
    [
        ["offsets", "or\udcff", "--bootstrap-servers", "localhost:1"],
        ["lag", "orders", "--bootstrap-servers", "localhost:1\udcff"],
        ["lag", "orders", "--bootstrap-servers", "localhost:1", "--metadata-topic", "m\udcff"],
        ["bench", "orders", "--store", "file:///", "--bootstrap-servers", "localhost:1\udcff"],
        ["verify", "--store", "file:///", "--bootstrap-servers", "localhost:1\udcff"],
        ["map", "orders", "--store", "file:///", "--bootstrap-servers", "localhost:1\udcff"],
        ["locate", "orders", "0", "1", "--bootstrap-servers", "localhost:1\udcff"],
        ["plan", "orders", "--bootstrap-servers", "localhost:1\udcff"],
        ["restore", "--dry-run", "--store", "file:///", "--metadata-servers", "localhost:1\udcff"],
    ],
    ids=" ".join,
)
def test_argument_for_brokers_that_is_not_utf_8_is_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text, status = failed(capsys, *arguments)
    assert "is not UTF-8" in text
    assert status == 2
