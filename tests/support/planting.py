"""Plants a bug: replaces a function of the product by a wrong one for some time, and fails if the function no longer exists.

::

    with planted("kafka_remote_client.fetch.locate:refusal", lambda original: lambda *_: None) as plant:
        ...
    assert plant.ran            # something called the wrong function

A place is ``module:name`` or ``module:Class.method``. Properties are replaced by properties. What a module has imported by name
is replaced where it is used.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

__all__ = ["MisfitError", "NoSuchPlaceError", "Plant", "planted"]

Make = Callable[[Any], Callable[..., Any]]


class NoSuchPlaceError(LookupError):
    """The product no longer has this name: plant the bug in another place."""


class MisfitError(Exception):
    """The wrong function does not take the arguments of the right one. A crash by that would count as a found bug."""


@attrs.define
class Plant:
    """``ran`` counts the calls of the wrong function. ``misfit``: the arguments that it does not take."""

    place: str
    ran: int = 0
    misfit: str | None = None


@contextmanager
def planted(place: str, make: Make) -> Iterator[Plant]:
    """``make`` gets the original (the getter of a property, the bound classmethod) and returns the replacement.

    Raises MisfitError at the end if a call did not fit the replacement.
    """
    owner, name = _owner(place)
    there = vars(owner)[name]
    plant = Plant(place)
    setattr(owner, name, _wrong(there, make, plant, owner, name))
    try:
        yield plant
    finally:
        setattr(owner, name, there)
    if plant.misfit is not None:
        raise MisfitError(f"{place}: {plant.misfit}")


def _owner(place: str) -> tuple[Any, str]:
    module, _, path = place.partition(":")
    *outer, name = path.split(".")
    try:
        owner: Any = importlib.import_module(module)
        for part in outer:
            owner = vars(owner)[part]
        if not callable(vars(owner)[name]) and not isinstance(vars(owner)[name], property | staticmethod | classmethod):
            raise NoSuchPlaceError(f"{place} is nothing that is called")
    except (ImportError, KeyError):
        raise NoSuchPlaceError(f"there is no {place}") from None
    return owner, name


def _wrong(there: Any, make: Make, plant: Plant, owner: Any, name: str) -> Any:
    bound = there.fget if isinstance(there, property) else getattr(owner, name)
    replacement = make(bound)
    fits = _signature(replacement)

    def counted(*args: Any, **kwargs: Any) -> Any:
        plant.ran += 1
        try:
            fits.bind(*args, **kwargs)
        except TypeError as error:
            plant.misfit = str(error)
        return replacement(*args, **kwargs)

    if isinstance(there, property):
        return property(counted)
    if isinstance(there, staticmethod | classmethod):
        return staticmethod(counted)
    return counted if isinstance(there, type) else functools.wraps(there)(counted)


def _signature(replacement: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(replacement)
    except ValueError:  # of a function in C, which checks its arguments itself
        return inspect.signature(lambda *_, **__: None)
