"""The entry point of ``kafka-remote``. Exit status: 0 done, 1 the data or a peer did not allow it, 2 wrong use."""

from __future__ import annotations

import sys

from kafka_remote_client.errors import ConfigurationError, DirectFetchError

__all__ = ["run"]


def run(arguments: list[str] | None = None) -> None:
    """Runs the command and exits with its status."""
    sys.exit(_status(arguments))


def _status(arguments: list[str] | None) -> int:
    try:
        from kafka_remote_client.cli.app import app  # noqa: PLC0415 - needs an extra
    except ModuleNotFoundError as error:
        return _say(f"kafka-remote needs {error.name}: pip install 'kafka-remote-client[cli]'", 2)
    try:
        app(args=arguments)
    except ConfigurationError as error:
        return _say(str(error), 2)
    except DirectFetchError as error:
        return _say(f"{error.cause}: {error}", 1)
    return 0


def _say(message: str, status: int) -> int:
    print(f"kafka-remote: {message}", file=sys.stderr)
    return status
