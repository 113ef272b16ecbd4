"""Tracers that replaced ``confluent_kafka.Consumer`` before this import, as opentelemetry-instrument and ddtrace-run do.

Such a class wraps methods with ``wrapt``. It is a base of our Consumer, so with direct fetch off its wrappers see the
application's calls. With direct fetch on they would see the calls of the inner consumer instead: several for one call of the
application, and none for records of the store. So the inner consumer's methods are taken without a wrapper, and
DirectConsumer's get it.

References: ``FunctionWrapper`` of wrapt: ``__wrapped__`` is the method, ``_self_wrapper`` the function around it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["instrumented", "uninstrumented"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def instrumented(upstream: type, name: str, method: _Method) -> _Method:
    """Returns ``method`` with the wrapper that the method ``name`` of ``upstream`` has; itself if that has none."""
    wrapped = inspect.getattr_static(upstream, name)
    wrapper = getattr(wrapped, "_self_wrapper", None)
    return method if wrapper is None else cast("_Method", type(wrapped)(method, wrapper))


def uninstrumented(method: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``method`` without wrappers."""
    function: Callable[..., Any] = inspect.unwrap(method)
    return function
