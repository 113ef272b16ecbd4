"""A real broker with a listener for SCRAM-SHA-512 and with StandardAuthorizer, which denies what no ACL allows.

Users without a listener of their own (PLAINTEXT) are super users, so that tests can set things up.

References: https://kafka.apache.org/documentation/#security_authz.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.artifacts import SHORT_LIVED
from tests.support.kafka_broker import KafkaBroker
from tests.support.ports import HOST, free_ports

__all__ = ["ScramBroker"]

_PATIENCE_SECONDS = 60.0
_LISTENERS = "PLAINTEXT://{host}:{port},SSL://{host}:{ssl_port}"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


class ScramBroker:
    """A context manager; ``broker`` is the broker itself, by its listener without authentication.

    ``version`` is Kafka's, by default that of the pom.
    """

    def __init__(self, directory: Path, version: str = "") -> None:
        (port,) = free_ports(1)
        self.bootstrap_servers = f"{HOST}:{port}"
        properties = {
            "listeners": f"{_LISTENERS},CONTROLLER://{{host}}:{{controller_port}},SASL://{{host}}:{port}",
            "advertised.listeners": f"{_LISTENERS},SASL://{{host}}:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": _LOGIN,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        self.broker = KafkaBroker(directory, properties=properties, java_options=("-Xmx512m", *SHORT_LIVED), version=version)

    def __enter__(self) -> Self:
        self.broker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.broker.destroy()

    def add_user(self, name: str) -> None:
        """A user whose password is the name and ``-password``."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion(name, credential, f"{name}-password".encode())
        self.broker.admin.alter_user_scram_credentials([change])[name].result(_PATIENCE_SECONDS)

    def allow(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Permits ``user`` the operation on the resource of exactly that name."""
        pattern = ResourcePatternType.LITERAL
        binding = AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        (done,) = self.broker.admin.create_acls([binding]).values()
        done.result(_PATIENCE_SECONDS)

    def revoke(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Takes the permission of :meth:`allow` back."""
        pattern = ResourcePatternType.LITERAL
        wanted = AclBindingFilter(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        (done,) = self.broker.admin.delete_acls([wanted]).values()
        assert len(done.result(_PATIENCE_SECONDS)) == 1
