"""The version of the installed distribution ``kafka-remote-client``, which has all three packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

UNKNOWN = "0+unknown"
"""Sources that run without an installation, such as an archive for Spark's ``--py-files``."""


def _installed() -> str:
    try:
        return version("kafka-remote-client")
    except PackageNotFoundError:
        return UNKNOWN


__version__ = _installed()
