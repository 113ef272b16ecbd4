"""A Schema Registry for an export: which schema a column has, and one client for each process.

::

    first run    newest schema of <topic>-value  ->  its id  ->  job.json        ids are never given to another schema, so
    later runs   the id in job.json              ->  the same columns            all attempts decode to the same records

Settings have the names of confluent_kafka's ``SchemaRegistryClient``, or Java's, which begin with ``schema.registry.``.

References: Confluent's Schema Registry API; "Subject Name Strategy" (TopicNameStrategy).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import attrs
import pyarrow as pa

from kafka_remote_client.errors import ConfigurationError, ExportError, missing_extra
from kafka_remote_client.parsing import parse_json

__all__ = ["ExportRegistry", "registry_of"]

_PREFIX = "schema.registry."
_NOT_FOUND = 404


@attrs.frozen
class ExportRegistry:
    """Settings of the client, and what asks it. It can be pickled. It is a ``RegistryClient`` for decoders.

    Each method raises ExportError if the registry does not answer or refuses.
    """

    settings: Mapping[str, Any] = attrs.field(repr=False)

    @property
    def url(self) -> str:
        """Its URL."""
        return str(self.settings["url"])

    def newest(self, subject: str) -> int:
        """The id of the newest schema of a subject. Raises ConfigurationError if there is none."""
        try:
            with self._export_errors(f"the newest schema of {subject}"):
                client = self._client()
                client.clear_latest_caches()  # it may have the newest one of an earlier job in this process
                return int(client.get_latest_version(subject).schema_id)
        except Exception as error:
            if getattr(error, "http_status_code", None) != _NOT_FOUND:
                raise
            raise ConfigurationError(
                f"the Schema Registry {self.url} has no subject {subject}; give the schema or its id"
            ) from None

    def type_of(self, schema: int | str) -> pa.DataType:
        """The Arrow type of the schema with this id, or of this Avro schema. Raises ConfigurationError for an id without one.

        Raises UnsupportedFormatError for a schema that Arrow cannot represent.
        """
        from kafka_remote_client.values.avro_types import avro_type  # noqa: PLC0415 - an extra
        from kafka_remote_client.values.registry_format import references_of  # noqa: PLC0415

        if not isinstance(schema, int):
            try:
                return avro_type(parse_json(schema)).arrow
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigurationError(f"not an id or an Avro schema: {error}") from None
        try:
            found = self.get_schema(schema)
        except Exception as error:
            if getattr(error, "http_status_code", None) != _NOT_FOUND:
                raise
            raise ConfigurationError(f"the Schema Registry {self.url} has no schema {schema}") from None
        if found.schema_type != "AVRO":
            raise ConfigurationError(f"schema {schema} of the Schema Registry {self.url} is {found.schema_type}, not AVRO")
        return avro_type(parse_json(found.schema_str), map(parse_json, references_of(self, found))).arrow

    def get_schema(self, schema_id: int) -> Any:
        """As of ``RegistryClient``. An unknown id raises the client's error."""
        with self._export_errors(f"schema {schema_id}"):
            return self._client().get_schema(schema_id)

    def get_version(self, subject_name: str, version: int) -> Any:
        """As of ``RegistryClient``. An unknown version raises the client's error."""
        with self._export_errors(f"version {version} of {subject_name}"):
            return self._client().get_version(subject_name, version)

    def _client(self) -> Any:
        return _client(tuple(sorted(self.settings.items())))

    @contextmanager
    def _export_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (ConfigurationError, ExportError):
            raise
        except Exception as error:
            if getattr(error, "http_status_code", None) == _NOT_FOUND:
                raise
            reason = str(error) or type(error).__name__
            raise ExportError(f"cannot get {what} from the Schema Registry {self.url}: {reason}") from error


@lru_cache(maxsize=8)
def _client(settings: tuple[tuple[str, Any], ...]) -> Any:
    """One for each process: it keeps the schemas that it has."""
    try:
        from kafka_remote_client.values.registry_format import registry_client  # noqa: PLC0415 - an extra

        return registry_client(dict(settings))
    except ModuleNotFoundError as error:
        raise missing_extra("a Schema Registry", error, "avro") from None
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"invalid settings of the Schema Registry: {error}") from None


def registry_of(given: str | Mapping[str, Any] | ExportRegistry | None) -> ExportRegistry | None:
    """The registry of a URL or of settings. Raises ConfigurationError for settings without a URL, or with a password in it."""
    if given is None or isinstance(given, ExportRegistry):
        return given
    named = {"url": given} if isinstance(given, str) else given
    settings = {name.removeprefix(_PREFIX): value for name, value in named.items()}
    if not settings.get("url"):
        raise ConfigurationError("a Schema Registry needs schema.registry.url")
    if urlsplit(str(settings["url"])).password is not None:
        raise ConfigurationError("schema.registry.url holds a password; give basic.auth.user.info instead")
    return ExportRegistry(settings)
