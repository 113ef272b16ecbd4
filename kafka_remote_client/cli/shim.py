"""``kafka-remote shim``: stands in front of a cluster until it is stopped. Its options are the declared settings."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from kafka_remote_client.cli.given_settings import is_secret
from kafka_remote_client.cli.logs import LogFormat, write_logs
from kafka_remote_client.cli.options import Output
from kafka_remote_client.cli.output import OutputFormat, show_json
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.shim_sources import read_config_file, read_environment, read_flags, shim_config
from kafka_remote_client.cli.signals import stop_signals
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.checks import check_shim
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.descriptor_limit import allow_connections
from kafka_remote_client.shim.health_log import HealthLog
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.shim.settings import SHIM_SETTINGS, ShimSetting
from kafka_remote_client.shim.shim_tier import ShimTier

__all__ = ["add_verb", "effective_settings", "serve", "with_shim_options"]

_LOG = logging.getLogger(__name__)
_HIDDEN = '"<hidden>"'
_UNITS = {"s": "seconds", "bytes": "bytes"}
_ADDRESSES = ("bootstrap_servers", "origin_url", "management_url")


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("shim")(_shim)


def serve(
    read: Callable[[], ShimConfig], say: Callable[[str], None], reloads: Callable[[], bool], output: OutputFormat
) -> Mapping[str, int]:
    """Runs a shim until ``reloads`` returns False, then drains it. Returns its counters. True reads the settings again.

    ``say`` gets the addresses and, at the end, the counters as sentences; a log in JSON gets them instead, so that it has no
    other lines. With JSON as ``output`` the addresses also go to standard output, as ``{"started": …}``.

    Raises ConfigurationError for the first settings, and for addresses that cannot be used. Later invalid settings change
    nothing, and one line of the log says why.
    """
    config = read()
    tell = partial(_LOG.info, "%s") if config.log_format == LogFormat.JSON else say
    with _logs(config), _started(config) as shim:
        with HealthLog(shim.health, shim.wait_ready):
            tell(f"clients connect to {shim.bootstrap_servers}")
            if shim.origin_url is not None:
                tell(f"segments are served at {shim.origin_url}")
            if shim.management_url is not None:
                tell(f"management pages are at {shim.management_url}")
            if output is OutputFormat.JSON:
                show_json({"started": {name: getattr(shim, name) for name in _ADDRESSES}})
            while reloads():
                _reload(shim, read)
        tell("stopping after requests in progress are answered")
        shim.drain()
        counters = shim.metrics()
        tell(", ".join(f"{name} {count}" for name, count in sorted(counters.items())))
        return counters


@contextmanager
def _started(config: ShimConfig) -> Iterator[Shim]:
    shim = Shim(config)
    allow_connections(config.max_connections)
    try:
        shim.start()
    except OSError as error:
        raise ConfigurationError(f"cannot listen: {error.strerror}") from None
    try:
        yield shim
    finally:
        shim.stop()


@contextmanager
def _logs(config: ShimConfig) -> Iterator[None]:
    handler = write_logs(sys.stderr, LogFormat(config.log_format))
    try:
        yield
    finally:
        logging.getLogger("kafka_remote_client").removeHandler(handler)


def _reload(shim: Shim, read: Callable[[], ShimConfig]) -> None:
    try:
        config = read()
        kept = shim.reload(config)
    except ConfigurationError as error:
        _LOG.warning("settings not reloaded: %s", error)
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything, its text may hold a secret, and the shim goes on
        _LOG.warning("settings not reloaded: unexpected %s", type(error).__name__)
    else:
        allow_connections(config.max_connections)
        if kept:
            _LOG.info("settings reloaded; these need a restart: %s", ", ".join(kept))
        else:
            _LOG.info("settings reloaded")


def with_shim_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds an option to a command for each declared setting, as a keyword argument: typer reads the signature.

    An option that is not given is None, so that other sources can supply the value.
    """
    own = [one for one in signature(command, eval_str=True).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    parameters = own + [_parameter(setting) for setting in SHIM_SETTINGS.values()]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # of functions: inspect.signature looks for it
    return command


def effective_settings(config: ShimConfig) -> Iterator[tuple[str, str]]:
    """Returns the keys of a configuration file with their values in TOML, which are JSON, too.

    Secrets are hidden; unset settings are left out. Patterns come in the order in which they are tried.
    """
    for name, setting in SHIM_SETTINGS.items():
        value = getattr(config, name)
        if setting.secret and value is not None:
            yield name, _HIDDEN
        elif setting.type is dict:
            for key, one in value.items() if setting.by_pattern else sorted(value.items()):
                yield f"{name}.{json.dumps(key)}", _HIDDEN if is_secret(key) else json.dumps(one)
        elif value is not None:
            yield name, json.dumps(value)


def _show_check(config: ShimConfig, output: OutputFormat) -> bool:
    """Prints the settings and what is wrong. Whether nothing is wrong. Raises ConfigurationError as a start does."""
    settings = dict(effective_settings(config))
    if output is OutputFormat.TEXT:
        for name, value in settings.items():
            sys.stdout.write(f"{name} = {value}\n")
    if config.store is not None:
        ShimTier(config, Counters(), SystemClock()).close()  # raises for settings that a start refuses
    findings = list(check_shim(config, SystemClock()))
    for finding in findings:
        remark(finding)
    if output is OutputFormat.JSON:
        show_json({"settings": {name: json.loads(value) for name, value in settings.items()}, "findings": findings})
    return not findings


def _parameter(setting: ShimSetting) -> Parameter:
    several = setting.type is dict
    kind: Any = list[str] if several else str if setting.type in (tuple, bytes) else setting.type
    repeated = "; may be repeated." if several else ""
    unit = f" In {_UNITS[setting.unit]}." if setting.unit else ""
    text = setting.doc.removesuffix(".") + (repeated or ".") + unit
    flags = f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if setting.type is bool else setting.flag
    shown = False if setting.default in (None, "", (), {}) else str(setting.default).lower()
    option = typer.Option(flags, help=text, metavar=setting.metavar, show_default=shown)
    return Parameter(setting.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


@with_shim_options
def _shim(
    *,
    config_file: Annotated[
        str | None,
        typer.Option("--config", help="Configuration file. Environment and options override it.", metavar="TOML"),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Print the settings, check that brokers and store can be reached, and exit: 0 yes, 1 no, 2 invalid settings.",
        ),
    ] = False,
    output: Output = OutputFormat.TEXT,
    **given: object,
) -> None:
    """Runs a proxy in front of a Kafka cluster that grants locations of tiered records to clients."""

    def read() -> ShimConfig:
        from_file = {} if config_file is None else read_config_file(config_file)
        return shim_config(from_file, read_environment(os.environ), read_flags(given))

    if check:
        raise typer.Exit(0 if _show_check(read(), output) else 1)
    with stop_signals() as signals:
        counters = serve(read, remark, lambda: signals.get() == signal.SIGHUP, output)
        if output is OutputFormat.JSON:
            show_json({"stopped": counters})
