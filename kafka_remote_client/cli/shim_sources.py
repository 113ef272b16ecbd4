"""Settings of a shim from three sources: a TOML file, the environment, and the flags of the command. Later ones win.

::

    source                    | a setting                          | a secret
    --config shim.toml        | url_ttl = 60                       | signing_key = "…", or signing_key_file = "FILE"
    KAFKA_REMOTE_SHIM_<NAME>  | KAFKA_REMOTE_SHIM_URL_TTL=60       | …_SIGNING_KEY=…, or …_SIGNING_KEY_FILE=FILE
    flags                     | --url-ttl 60                       | --signing-key-file FILE

Names are those of ShimConfig. A setting of several keys is a table in the file, and lines KEY=VALUE in the environment; the
sources add up key by key. In its values secrets may also be ``@FILE`` or ``env:VARIABLE``. Lists are arrays in the file, and
separated by commas elsewhere.

Of settings by pattern (``topic_policies``, ``client_limits``) the first pattern that fits decides. The patterns of flags come
first, then those of the environment, then those of the file, within each in the order in which it names them. Fields of a
pattern that several sources name add up, and it stands where the first of these has it::

    file       [topic_policies."*"]   url_ttl = 60
    flags      --topic-policy orders.grant=never --topic-policy clicks.url_ttl=30
    tried      orders, clicks, *

Kubernetes sets variables such as KAFKA_REMOTE_SHIM_PORT for a service of that name. They are ignored; other unknown names are
errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kafka_remote_client import arguments
from kafka_remote_client.cli.given_settings import parse_line, parse_settings, read_secret, read_text, resolve_secret
from kafka_remote_client.cli.store_arguments import parse_encryption_keys
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.parsing import parse_toml
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.settings import SHIM_SETTINGS, ShimSetting

__all__ = ["VARIABLE_PREFIX", "read_config_file", "read_environment", "read_flags", "shim_config"]

VARIABLE_PREFIX = "KAFKA_REMOTE_SHIM_"

_OF_KUBERNETES = re.compile(r"SERVICE_(?:HOST|PORT(?:_.*)?)|PORT(?:_.*)?")
_FILE_SUFFIX = "_file"
_FORMS = {bool: "true or false", str: "a text", bytes: "a text", tuple: "a list of whole numbers", dict: "a table"}
_KINDS: Mapping[type, tuple[type, ...]] = {float: (int, float), tuple: (list,), bytes: (str,)}


def shim_config(*sources: Mapping[str, Any]) -> ShimConfig:
    """The settings of all sources; later ones win. Raises ConfigurationError, also for a setting that is missing."""
    merged: dict[str, Any] = {}
    for source in sources:
        for name, value in source.items():
            merged[name] = _added(name, merged.get(name, {}), value) if isinstance(value, Mapping) else value
    missing = [str(setting.flag) for name, setting in SHIM_SETTINGS.items() if setting.required and name not in merged]
    if missing:
        raise ConfigurationError(f"missing settings: {', '.join(missing)}")
    return ShimConfig(**merged)


def _added(name: str, earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of two sources with the values of the later one, whose patterns come first."""
    both = {**earlier, **later}
    return {**later, **both} if SHIM_SETTINGS[name].by_pattern else both


def read_config_file(path: str) -> dict[str, Any]:
    """The settings of a TOML file. Raises ConfigurationError, which shows no value."""
    text = read_text(path)
    try:
        given = parse_toml(text)
    except ValueError as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    return dict(_named(name, value, f"{path}: {name}", _of_toml) for name, value in given.items())


def read_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings of environment variables. Raises ConfigurationError, which shows no value."""
    given = {name.removeprefix(VARIABLE_PREFIX): name for name in sorted(environment) if name.startswith(VARIABLE_PREFIX)}
    return dict(
        _named(short.lower(), environment[name], name, _of_text)
        for short, name in given.items()
        if not _OF_KUBERNETES.fullmatch(short)
    )


def read_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the options that were given, by the names of settings. Raises ConfigurationError."""
    return {name: _of_flag(SHIM_SETTINGS[name], value) for name, value in given.items() if value is not None}


def _named(name: str, value: Any, where: str, read: Callable[[ShimSetting, Any, str], Any]) -> tuple[str, Any]:
    setting = SHIM_SETTINGS.get(name)
    if setting is not None:
        return name, read(setting, value, where)
    secret = SHIM_SETTINGS.get(name.removesuffix(_FILE_SUFFIX))
    if secret is None or not secret.secret or not isinstance(value, str):
        close = arguments.closest(name, SHIM_SETTINGS)
        raise ConfigurationError(f"{where}: unknown setting{f'; did you mean {close}?' if close else ''}")
    return secret.name, _secret_from(secret, value)


def _of_toml(setting: ShimSetting, value: Any, where: str) -> Any:
    kinds: tuple[type, ...] = _KINDS.get(setting.type, (setting.type,))
    if type(value) not in kinds:
        raise ConfigurationError(f"{where} must be {_form(setting)}")
    if setting.type is dict:
        return {key: resolve_secret(key, one, where) if isinstance(one, str) else one for key, one in _flat(value).items()}
    return value.encode() if setting.type is bytes else tuple(value) if setting.type is tuple else value


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """TOML reads ``sasl.password = …`` as a table in a table; the names here have dots."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return flat


def _of_text(setting: ShimSetting, value: str, where: str) -> Any:
    if setting.type is dict:
        lines = (line.strip() for line in value.splitlines() if line.strip())
        pairs = dict((_pattern_pair if setting.by_pattern else parse_line)(line, where) for line in lines)
        return {key: resolve_secret(key, one, where) for key, one in pairs.items()}
    if setting.type is bytes:
        return value.encode()
    if setting.type is bool:
        return arguments.true_or_false(value, where)
    try:
        return _numbers(value) if setting.type is tuple else setting.type(value)
    except ValueError:
        raise ConfigurationError(f"{where} must be {_form(setting)}") from None


def _form(setting: ShimSetting) -> str:
    """What a value must be, for an error."""
    return setting.number_form if setting.type in (int, float) else _FORMS[setting.type]


def _of_flag(setting: ShimSetting, value: Any) -> Any:
    if setting.secret:
        return _secret_from(setting, value)
    if setting.name == "encryption_keys":
        return parse_encryption_keys(value)
    if setting.by_pattern:
        return dict(_pattern_pair(one, str(setting.flag)) for one in value)
    if setting.type is dict:
        return parse_settings(value, str(setting.flag))
    return _of_text(setting, value, str(setting.flag)) if setting.type is tuple else value


def _secret_from(setting: ShimSetting, path: str) -> Any:
    secret = read_secret(path)
    assert secret is not None
    return secret.encode() if setting.type is bytes else secret


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(",") if one.strip())


def _pattern_pair(line: str, where: str) -> tuple[str, str]:
    """Patterns may contain ``=``, as the subject of a certificate does; values of their fields never do."""
    key, separator, value = line.rpartition("=")
    if not separator or not key:
        raise ConfigurationError(f"{where} must have the form KEY=VALUE")
    return key.strip(), value.strip()
