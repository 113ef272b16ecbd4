"""The entry point of ``kafka-remote``.

::

    status  meaning
    0       done
    1       the data or a peer did not allow it, or a check has findings
    2       wrong use, or nothing could be checked
    130     interrupted (Ctrl-C)
    141     the reader of the output has gone, as ``head`` does

Everything else is imported in :func:`run`, which turns a Ctrl-C during the imports into a status, too.

References: docs/cli.md; the last two are what shells show for SIGINT and SIGPIPE.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from typing import TextIO

__all__ = ["run"]

_FAILED, _WRONG_USE, _INTERRUPTED, _OUTPUT_CLOSED = 1, 2, 130, 141
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a file that cannot grow. The verbs report those of all files but standard output."""


def run(arguments: list[str] | None = None) -> None:
    """Runs the command and exits with its status."""
    output_closed = sys.stdout is None
    _open_closed_streams()
    _write_utf_8()
    try:
        status = _status(arguments)
        if status != _INTERRUPTED:
            sys.stdout.flush()
            _discard_remarks()
            sys.exit(status)
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except BrokenPipeError:
        status = _OUTPUT_CLOSED
    except OSError as error:
        if output_closed and error.errno == errno.EBADF:
            status = _say("standard output is closed", _FAILED)
        elif error.errno in _NO_ROOM:
            status = _say(f"standard output cannot be written: {error.strerror}", _FAILED)
        else:
            raise
    _discard(sys.stdout)
    _discard_remarks()
    sys.exit(status)


def _open_closed_streams() -> None:
    """Opens the standard streams that the caller has closed (``>&-``), so that no file or socket gets their numbers.

    librdkafka logs to 2, whatever that is. Writing to 1 is an error, as it was; what goes to 2 is lost.
    """
    for number, access in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(nowhere := os.open(os.devnull, access), number)
            if nowhere != number:
                os.close(nowhere)
    sys.stdout = sys.stdout or open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115 - until the process ends
    sys.stderr = sys.stderr or open(2, "w", closefd=False, encoding="utf-8")  # noqa: SIM115 - as above


def _write_utf_8() -> None:
    """Makes standard output UTF-8, as JSON is, in every locale: records have any characters, and so do their headers."""
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper) and codecs.lookup(output.encoding).name != "utf-8":
        output.reconfigure(encoding="utf-8")


def _status(arguments: list[str] | None) -> int:
    from kafka_remote_client.errors import ConfigurationError, DirectFetchError, missing_extra  # noqa: PLC0415 - see the top

    try:
        from kafka_remote_client.cli.app import app  # noqa: PLC0415 - needs an extra
        from kafka_remote_client.cli.command_group import OutputClosedError  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        extra = "shim" if "shim" in (sys.argv[1:] if arguments is None else arguments) else "cli"
        return _say(str(missing_extra("kafka-remote", error, extra)), _WRONG_USE)
    try:
        app(args=arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except ConfigurationError as error:
        return _say(str(error), _WRONG_USE)
    except DirectFetchError as error:
        return _say(f"{error.cause}: {error}", _FAILED)
    except OutputClosedError as error:
        raise BrokenPipeError from error
    return 0


def _say(message: str, status: int) -> int:
    from kafka_remote_client.cli.remarks import remark  # noqa: PLC0415 - see the top

    remark(message)
    return status


def _discard_remarks() -> None:
    """Discards remarks that cannot be written. Otherwise the interpreter would end with status 120."""
    try:
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Sends the rest of a stream to the null device.

    The interpreter flushes it at its end. That would print a failure, or wait forever for a full pipe that is not read.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
