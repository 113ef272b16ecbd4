"""The settings of the fetchers, their stores and their signers: each declared once, and read as declared.

A fetcher names what it reads in ``settings``; defaults and texts come from the table. docs/configs.md and the option tables of
docs/stores.md are made from it. A store knows its settings without the prefix ``remote.storage.fetcher.``; every reader below
takes a name with or without it. Values are typed in Python and texts in a properties file. The ``fetch.remote.*`` settings that
all fetchers share are declared in :mod:`kafka_remote_client.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.settings import FETCHER_PREFIX, PREFIX, Setting
from kafka_remote_client.settings import declared as client_setting

__all__ = ["SETTINGS", "bool_setting", "fetcher_settings", "int_setting", "store_options", "store_url", "text_setting"]


def _text(name: str, doc: str, default: str | None = None) -> Setting:
    return Setting(f"{FETCHER_PREFIX}{name}", str, default, "", doc)


def _switch(name: str, doc: str) -> Setting:
    return Setting(f"{FETCHER_PREFIX}{name}", bool, False, "", doc)


SETTINGS = {
    setting.name: setting
    for setting in (
        _text(
            "allowed.hosts",
            "Stores whose URLs may be followed, as `host[:port][/path-prefix]`, separated by commas. Required: URLs of other "
            "stores are refused.",
        ),
        _switch("allow.http", "Permit plain http. Segments and signed URLs are then sent unencrypted."),
        _switch("allow.private.addresses", "Permit stores at private and loopback addresses."),
        _text("ssl.ca.location", "PEM file with the store's certificate authorities. Not set: the system's CAs."),
        _text(
            "requests.proxy",
            "Proxy of the Session: `http://host:port`. It resolves the store's name. Not set: none.",
        ),
        _text(
            "requests.client.certificate",
            "PEM file with the client's certificate and its unencrypted key. Not set: none.",
        ),
        _text(
            "local.root", "Directory that object keys are relative to. Not set: the directory in `remote.storage.store.url`."
        ),
        _text("store.url", "The store, such as `s3://BUCKET/PREFIX`. Not set: `remote.storage.store.url`."),
        _text("s3.region", "Region of the bucket. Not set: boto3's default."),
        _text("s3.endpoint.url", "`https://host[:port]` of another S3 implementation. Not set: AWS."),
        _switch(
            "s3.path.style", "Put the bucket into the path instead of the host name, as most other S3 implementations need."
        ),
        _text("s3.profile", "Profile of the shared AWS configuration. Not set: boto3's default."),
        _text("s3.role.arn", "Role to assume with the credentials that boto3 finds. Not set: none."),
        _text("s3.role.session.name", "Name of the sessions of that role.", "kafka-remote"),
        _text("s3.external.id", "External id that the trust policy of that role requires. Not set: none."),
        _text("gcs.endpoint.url", "Another address of the service. Not set: Google's."),
        _text("gcs.service.account.file", "JSON file of a service account. Not set: application default credentials."),
        _switch("gcs.anonymous", "Send requests without credentials, for public buckets."),
        _text("azure.account.name", "The storage account. Not set: the variable `AZURE_STORAGE_ACCOUNT_NAME`."),
        _text("azure.endpoint.url", "Another address of the account. Not set: Azure's."),
        _switch("azure.anonymous", "Send requests without credentials, for public containers."),
    )
}
"""By full name."""


def fetcher_settings(*names: str) -> frozenset[str]:
    """What a fetcher or store declares that it reads (kafka_remote_client.plugin.DeclaresSettings), by names without prefix."""
    return frozenset(_declared(name).name for name in names)


def bool_setting(configs: Mapping[str, object], name: str) -> bool:
    """Raises ConfigurationError unless the value is a bool, or its name in any case."""
    value = configs.get(name)
    return bool(_declared(name).default) if value is None else arguments.true_or_false(value, name)


def int_setting(configs: Mapping[str, object], name: str) -> int:
    """Raises ConfigurationError unless the value is an integer of at least the declared minimum."""
    setting = _declared(name)
    value = configs.get(name)
    if value is None:
        return int(str(setting.default))
    minimum = int(setting.minimum or 0)
    try:
        parsed = int(str(value))
    except ValueError:
        parsed = minimum - 1
    if parsed < minimum:
        raise ConfigurationError(f"{name} must be {setting.number_form}")
    return parsed


def text_setting(configs: Mapping[str, object], name: str) -> str | None:
    """The text without surrounding blanks; the default when absent or empty. Raises ConfigurationError for any other type."""
    value = configs.get(name)
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a string")
    default = _declared(name).default
    return (value or "").strip() or (None if default is None else str(default))


def store_options(configs: Mapping[str, object]) -> dict[str, object]:
    """A fetcher's settings under the names that stores know them by: without their common prefix."""
    return {name.removeprefix(FETCHER_PREFIX): value for name, value in configs.items() if name.startswith(FETCHER_PREFIX)}


def store_url(configs: Mapping[str, object]) -> str:
    """The store's URL, for a fetcher with its own access. Raises ConfigurationError if no setting names it."""
    url = text_setting(configs, f"{FETCHER_PREFIX}store.url") or text_setting(configs, "remote.storage.store.url")
    if url is None:
        raise ConfigurationError(f"{FETCHER_PREFIX}store.url is not set")
    return url


def _declared(name: str) -> Setting:
    """The setting of that name, with or without the fetchers' prefix. Raises KeyError for an undeclared one."""
    if name.startswith((PREFIX, "remote.storage.store.")):
        return client_setting(name)
    return SETTINGS[f"{FETCHER_PREFIX}{name.removeprefix(FETCHER_PREFIX)}"]
