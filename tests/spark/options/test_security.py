from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.options import security
from kafka_remote_client.spark.options.security import translate_security


def test_the_default_protocol_is_plaintext() -> None:
    assert translate_security({}).settings == {}
    assert translate_security({"security.protocol": "PLAINTEXT"}).settings == {}


def test_the_protocol_may_be_in_any_case() -> None:
    assert translate_security({"security.protocol": " SSL "}).settings == {"security.protocol": "ssl"}


def test_sasl_and_tls_can_be_combined() -> None:
    found = translate_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'a.PlainLoginModule required username="u" password="hunter2";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
        }
    )
    assert found.settings == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "hunter2",
        "ssl.ca.location": "ca.pem",
    }
    assert "hunter2" not in repr(found)


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.security\.protocol must be one of plaintext"):
        translate_security({"security.protocol": "canary"})


@pytest.mark.parametrize("name", sorted(security.REFUSED))
def test_java_s_own_classes_are_refused_by_name_with_advice(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"kafka\.{name} is not supported: .+") as raised:
        translate_security({name: "canary"})
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("name", ["ssl.new.thing", "sasl.new.thing", "security.new.thing"])
def test_no_security_setting_is_ignored_silently(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"kafka\.{name} is a security setting"):
        translate_security({name: "canary"})


def test_tuning_of_security_is_ignored_and_named() -> None:
    found = translate_security(dict.fromkeys(security.IGNORED, "1"))
    assert found.settings == {}
    assert set(found.ignored) == security.IGNORED
