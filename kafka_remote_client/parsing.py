"""Parses JSON and TOML that users and other systems write. Any text gives a value or a ValueError, nothing else.

Python's own parsers have more errors: RecursionError for deep nesting, and a hint on sys.set_int_max_str_digits for a number of
5,000 digits.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any

__all__ = ["parse_json", "parse_toml"]

_TOO_DEEP = "nested too deeply"
_TOO_LONG = "a number has too many digits"


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """As ``json.loads``, with its ``hooks``. Raises ValueError; an exception of a hook goes through."""
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        raise _without_hint(error) from None


def parse_toml(text: str) -> dict[str, Any]:
    """As ``tomllib.loads``. Raises ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        raise _without_hint(error) from None


def _without_hint(error: ValueError) -> ValueError:
    return ValueError(_TOO_LONG) if "set_int_max_str_digits" in str(error) else error
