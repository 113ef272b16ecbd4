"""Settings of a shim from file, environment and flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.cli.shim_sources import read_config_file, read_environment, read_flags, shim_config
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.client_limits import client_limits
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.settings import SHIM_SETTINGS
from kafka_remote_client.shim.topic_policies import TopicPolicy, topic_policies

KEY = "k" * 16
NEEDED = {"bootstrap_servers": "broker:9092", "listen": "127.0.0.1:9192", "store": "file:///tier"}


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text(KEY + "\n")
    return str(path)


def toml(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "shim.toml"
    path.write_text(text)
    return read_config_file(str(path))


def test_the_file_accepts_every_setting(tmp_path: Path) -> None:
    examples = {
        str: '"a:1"',
        int: "65536",
        float: "60",
        bool: "true",
        tuple: "[1, 2]",
        dict: '{ "a.b" = "c" }',
        bytes: f'"{KEY}"',
    }
    given = toml(tmp_path, "\n".join(f"{name} = {examples[setting.type]}" for name, setting in SHIM_SETTINGS.items()))
    assert given.keys() == SHIM_SETTINGS.keys()
    assert (given["signing_key"], given["node_ids"], given["store_options"]) == (KEY.encode(), (1, 2), {"a.b": "c"})


def test_the_environment_accepts_every_setting() -> None:
    examples = {str: "a:1", int: "65536", float: "60", bool: "true", tuple: "1,2", dict: "a.b=c\nd=e=f", bytes: KEY}
    given = read_environment(
        {f"KAFKA_REMOTE_SHIM_{name.upper()}": examples[setting.type] for name, setting in SHIM_SETTINGS.items()} | {"PATH": "/"}
    )
    assert given.keys() == SHIM_SETTINGS.keys()
    assert (given["signing_key"], given["node_ids"], given["url_ttl"]) == (KEY.encode(), (1, 2), 60.0)
    assert (given["store_options"], given["origin_https"]) == ({"a.b": "c", "d": "e=f"}, True)


def test_flags_precede_environment_and_file() -> None:
    file = {**NEEDED, "url_ttl": 10, "range_bytes": 65_536, "metadata_consumer": {"a": "file", "b": "file"}}
    environment = {"url_ttl": 20.0, "metadata_consumer": {"b": "environment"}, "max_connections": 7}
    flags = read_flags({"max_connections": 8, "url_ttl": None, "metadata_consumer": ["c=flag"], "node_ids": "3,4"})
    assert shim_config(file, environment, flags) == ShimConfig(
        **NEEDED,
        url_ttl=20.0,
        range_bytes=65_536,
        max_connections=8,
        node_ids=(3, 4),
        metadata_consumer={"a": "file", "b": "environment", "c": "flag"},
    )


def test_blanks_around_the_equals_sign_of_a_line_do_not_count(secret: str) -> None:
    lines = {
        "METADATA_CONSUMER": f" sasl.username = me\nsasl.password = @{secret}\n",
        "TOPIC_POLICIES": "audit-*.grant = never",
    }
    assert read_environment({f"KAFKA_REMOTE_SHIM_{name}": text for name, text in lines.items()}) == {
        "metadata_consumer": {"sasl.username": "me", "sasl.password": KEY},
        "topic_policies": {"audit-*.grant": "never"},
    }


def test_secrets_are_read_from_files(tmp_path: Path, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "hush")
    assert toml(tmp_path, f'signing_key_file = "{secret}"') == {"signing_key": KEY.encode()}
    assert read_environment({"KAFKA_REMOTE_SHIM_SSL_KEY_PASSWORD_FILE": secret}) == {"ssl_key_password": KEY}
    assert read_flags({"signing_key": secret}) == {"signing_key": KEY.encode()}
    given = ['sasl.username = "@me"', f'sasl.password = "@{secret}"', 'sasl.oauthbearer.client.secret = "env:PASSWORD"']
    assert toml(tmp_path, "\n".join(["[metadata_consumer]", *given]))["metadata_consumer"] == {
        "sasl.username": "@me",
        "sasl.password": KEY,
        "sasl.oauthbearer.client.secret": "hush",
    }


def test_a_secret_in_a_flag_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="every user of this machine sees command lines"):
        read_flags({"metadata_consumer": ["sasl.password=canary"]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("url_tll = 1", "url_tll: unknown setting; did you mean url_ttl?"),
        ('url_ttl_file = "x"', "url_ttl_file: unknown setting"),
        ("signing_key_file = 1", "signing_key_file: unknown setting"),
        ('url_ttl = "1"', "url_ttl must be a number of seconds between 1 and 900, such as"),
        ("max_connections = true", "max_connections must be a whole number between"),
        ("signing_key = [1]", "signing_key must be a text"),
        ("url_ttl =", "is not TOML"),
        ("node_ids = " + "[" * 100_000, "is not TOML: nested too deeply"),
    ],
)
def test_invalid_settings_of_the_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        toml(tmp_path, text)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe4")
    for name, why in (("none", "No such file"), ("latin", "not UTF-8")):
        with pytest.raises(ConfigurationError) as raised:
            read_config_file(str(tmp_path / name))
        assert str(raised.value).startswith(f"{tmp_path / name} cannot be read: {why}")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("URL_TLL", "1", "URL_TLL: unknown setting; did you mean url_ttl?"),
        ("URL_TTL", "canary", "URL_TTL must be a number of seconds between 1 and 900, such as"),
        ("NODE_IDS", "1,canary", "NODE_IDS must be a list of whole numbers"),
        ("ORIGIN_HTTPS", "canary", "ORIGIN_HTTPS must be true or false"),
        ("METADATA_CONSUMER", "canary", "METADATA_CONSUMER must have the form KEY=VALUE"),
        ("METADATA_CONSUMER", "sasl.password=env:NONE_OF_THAT_NAME", "the environment variable is not set"),
    ],
)
def test_invalid_settings_of_the_environment_are_named(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as refused:
        read_environment({f"KAFKA_REMOTE_SHIM_{name}": value})
    assert "canary" not in str(refused.value)


def test_variables_that_kubernetes_sets_are_ignored() -> None:
    names = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_KAFKA", "PORT", "PORT_9192_TCP", "PORT_9192_TCP_ADDR")
    assert read_environment({f"KAFKA_REMOTE_SHIM_{name}": "tcp://10.0.0.1:9192" for name in names}) == {}


def test_missing_settings_are_named_together() -> None:
    with pytest.raises(ConfigurationError, match="missing settings: --bootstrap-servers, --store"):
        shim_config({"listen": "127.0.0.1:0"})


def test_patterns_of_names_may_contain_separators(tmp_path: Path) -> None:
    key = "commonName=app,organizationName=a.b.bytes_per_second"
    expected = {"client_limits": {key: 5}}
    assert toml(tmp_path, '[client_limits."commonName=app,organizationName=a.b"]\nbytes_per_second = 5') == expected
    assert read_flags({"client_limits": [f"{key}=5"]}) == {"client_limits": {key: "5"}}
    assert read_environment({"KAFKA_REMOTE_SHIM_CLIENT_LIMITS": f"{key}=5"}) == {"client_limits": {key: "5"}}
    given = shim_config(NEEDED, {"client_limits": {key: "5"}})
    with pytest.raises(ConfigurationError, match="--topic-policy must have the form KEY=VALUE"):
        read_flags({"topic_policies": ["orders"]})
    assert given.client_limits == {key: "5"}


def test_patterns_of_flags_precede_those_of_environment_and_file(tmp_path: Path) -> None:
    file = toml(
        tmp_path, '[topic_policies."audit-*"]\ngrant = "never"\n[topic_policies."*"]\nurl_ttl = 60\nmax_grant_bytes = 65536'
    )
    environment = read_environment({"KAFKA_REMOTE_SHIM_TOPIC_POLICIES": "b.grant=never\na.grant=never"})
    flags = read_flags({"topic_policies": ["z.url_ttl=10", "a.url_ttl=20"]})
    given = shim_config(NEEDED, file, environment, flags).topic_policies
    assert list(given) == [
        "z.url_ttl",
        "a.url_ttl",
        "b.grant",
        "a.grant",
        "audit-*.grant",
        "*.url_ttl",
        "*.max_grant_bytes",
    ]
    policies = topic_policies(given)
    assert policies.of("a") == TopicPolicy("never", 20.0), "fields of one pattern add up, where its first source stands"


def test_a_flag_applies_although_a_pattern_of_the_file_matches_too(tmp_path: Path) -> None:
    file = toml(tmp_path, '[topic_policies."*"]\nurl_ttl = 60\n[client_limits."*"]\ngrants_per_second = 5')
    flags = read_flags({"topic_policies": ["orders.grant=never"], "client_limits": ["*.grants_per_second=1"]})
    config = shim_config(NEEDED, file, flags)
    policies = topic_policies(config.topic_policies)
    assert (policies.of("orders"), policies.of("clicks")) == (TopicPolicy("never"), TopicPolicy(url_ttl=60))
    assert client_limits(config.client_limits).of("me@192.0.2.1").grants_per_second == 1
