"""``kafka-remote shim``: stands in front of a cluster until it is stopped. Its options are the declared settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from kafka_remote_client.cli.given_settings import parse_settings, read_secret
from kafka_remote_client.cli.store_arguments import parse_encryption_keys
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.settings import SHIM_SETTINGS, ShimSetting

__all__ = ["serve", "shim_config", "with_shim_options"]

_UNITS = {"s": "seconds", "bytes": "bytes"}


def serve(config: ShimConfig, say: Callable[[str], None], wait: Callable[[], object]) -> Mapping[str, int]:
    """Runs a shim until ``wait`` returns; its counters. Raises ConfigurationError, OSError when an address is taken."""
    with Shim(config) as shim:
        say(f"clients connect to {shim.bootstrap_servers}")
        if shim.origin_url is not None:
            say(f"segments are served at {shim.origin_url}")
        wait()
        return shim.metrics()


def with_shim_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command that takes keywords one option for each declared setting that has a flag: typer reads the signature."""
    parameters = [_parameter(setting) for setting in SHIM_SETTINGS.values() if setting.flag is not None]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # of functions: inspect.signature looks for it
    return command


def shim_config(given: Mapping[str, Any]) -> ShimConfig:
    """The settings that those options name. Raises ConfigurationError."""
    return ShimConfig(**{name: _read(SHIM_SETTINGS[name], value) for name, value in given.items()})


def _parameter(setting: ShimSetting) -> Parameter:
    assert setting.flag is not None
    kind: Any = list[str] if setting.type is dict else setting.type
    repeated = "; may be repeated." if setting.type is dict else ""
    unit = f" In {_UNITS[setting.unit]}." if setting.unit else ""
    text = setting.doc.removesuffix(".") + (repeated or ".") + unit
    option = typer.Option(setting.flag, help=text, metavar=setting.metavar)
    default = Parameter.empty if setting.required else None if setting.type is dict else setting.default
    if default is None:
        kind = kind | None
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _read(setting: ShimSetting, value: Any) -> Any:
    """The value of a setting from the text, or texts, of its option."""
    if setting.name == "ssl_key_password":
        return read_secret(value)
    if setting.name == "encryption_keys":
        return parse_encryption_keys(value or [])
    if setting.type is dict:
        return parse_settings(value or [], str(setting.flag))
    return value
