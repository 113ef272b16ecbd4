"""Runs a constructor of confluent_kafka.aio with other classes than it names: the Consumer of this package for the stock one.

Why: upstream's asyncio classes create their consumer in their constructors, by a name of their module, after they have wrapped
callbacks and made an executor. A replacement would have to repeat all that for each version. A change of the name in
upstream's module would change the class for the rest of the process.

Assumption: the constructor looks the class up by the given name, so that a copy of the function finds it in another
namespace. aio.py checks that at import. If the constructor does not use the name, or the environment has
``KAFKA_REMOTE_CLIENT_AIO=0``, upstream's constructor runs unchanged: direct fetch stays off, and a log line says so.

References: ``types.FunctionType``, confluent_kafka.aio.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from kafka_remote_client.arguments import switched_on

__all__ = ["with_names"]

_F = TypeVar("_F", bound=Callable[..., Any])


def with_names(function: _F, **names: object) -> _F | None:
    """Returns ``function`` with other values for these names of its module; ``None`` if it does not use them, or may not."""
    original = cast("FunctionType", function)
    if not (switched_on("KAFKA_REMOTE_CLIENT_AIO") and names.keys() <= set(original.__code__.co_names)):
        return None
    namespace = {**original.__globals__, **names}
    copy = FunctionType(original.__code__, namespace, original.__name__, original.__defaults__, original.__closure__)
    copy.__kwdefaults__ = original.__kwdefaults__
    return cast("_F", copy)
