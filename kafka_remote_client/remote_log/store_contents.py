"""Describes a store in which no segment was found, so that a wrong root, prefix or layout is distinguished from an empty tier.

Keys are matched with the directory and file names of every layout, below any prefix::

    <prefix><topic>-<partition>-<topic id>/<20 digits>-<segment id>.<suffix>     local-tiered-storage
    <prefix><topic>-<topic id>/<partition>/<20 digits>-<segment id>.<suffix>     aiven

A prefix that does not end with ``/`` cannot be distinguished from the topic's name and is shown as part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

import attrs

from kafka_remote_client.errors import ConfigurationError, NoSegmentsError
from kafka_remote_client.plugin import RemoteObjectStore

__all__ = ["describe_contents", "naming_options", "no_segments", "nothing_found"]

_LOOKED_AT = 10_000
_SHOWN_TOPICS = 5
_SHOWN_PLACES = 3

_NAME = r"[0-9]{20}-[A-Za-z0-9_-]{22}\."
_LOCAL = re.compile(rf"(?P<prefix>(?:.*/)?)(?P<topic>[^/]+)-[0-9]{{1,10}}-[A-Za-z0-9_-]{{22}}/{_NAME}[a-z_]+", re.ASCII)
_AIVEN = re.compile(
    rf"(?P<prefix>(?:.*/)?)(?P<topic>[^/]+)-[A-Za-z0-9_-]{{22}}/[0-9]{{1,10}}/{_NAME}(?:log|indexes|rsm-manifest)", re.ASCII
)
_ROOT = "kafka-tiered-storage/"


@attrs.frozen
class _Names:
    """The names of the options, or of the settings, with which a user says where the tier is."""

    layout: str
    key_prefix: str
    store: str
    between: str


_OPTIONS = _Names("--layout ", "--key-prefix ", "--store", " ")
_SETTINGS = _Names("remote.storage.store.layout=", "remote.storage.store.key.prefix=", "remote.storage.store.url", ", ")


@attrs.frozen
class _Place:
    """A prefix of a store with segments of one layout."""

    layout: str
    prefix: str

    def described(self, names: _Names) -> str:
        """Describes the place, with the options of ``names`` that read it."""
        what = {"aiven": "Aiven manifests", "local-tiered-storage": "LocalTieredStorage segments"}[self.layout]
        return f"{what} {f'below {self.prefix}' if self.prefix else 'at its root'} ({self._options(names)})"

    def _options(self, names: _Names) -> str:
        layout = f"{names.layout}{self.layout}"
        if self.layout == "aiven":
            return f"{layout}{names.between}{names.key_prefix}{self.prefix}" if self.prefix else layout
        above = self.prefix.removesuffix(_ROOT)
        if not self.prefix.endswith(_ROOT):
            return "expected in a directory kafka-tiered-storage"
        return f"{layout}, {names.store} with {above} at its end" if above else layout


def describe_contents(keys: Iterable[str], names: _Names = _OPTIONS) -> str:
    """One phrase: segments of which layout and topics lie where, else what the objects are called."""
    places: dict[_Place, set[str]] = {}
    count, example = 0, ""
    for key in keys:
        count += 1
        example = example or key
        for layout, pattern in (("local-tiered-storage", _LOCAL), ("aiven", _AIVEN)):
            matched = pattern.fullmatch(key)
            if matched is not None:
                places.setdefault(_Place(layout, matched["prefix"]), set()).add(matched["topic"])
                break
    if not count:
        return "the store has no objects there"
    if not places:
        some = f"at least {count}" if count == _LOOKED_AT else str(count)
        return f"the store has {some} objects, none of them part of a segment, for example {example}"
    shown = sorted(f"{place.described(names)} of {_topics(topics)}" for place, topics in places.items())
    more = f", and {len(shown) - _SHOWN_PLACES} other places" if len(shown) > _SHOWN_PLACES else ""
    return f"the store has {'; '.join(shown[:_SHOWN_PLACES])}{more}"


def nothing_found(what: str, store: RemoteObjectStore) -> ConfigurationError:
    """The error for a tier in which nothing was found. ``what`` says that; the text adds what the store holds instead.

    Looks at the first 10,000 objects. Raises what the store raises.
    """
    return ConfigurationError(f"{what}; {describe_contents(_first_keys(store))}")


def no_segments(topic: str, store: RemoteObjectStore) -> NoSegmentsError:
    """The same for a client that is set up by settings, about a topic that has no segment in its store."""
    return NoSegmentsError(f"found no segments of topic {topic}; {describe_contents(_first_keys(store), _SETTINGS)}")


@contextmanager
def naming_options() -> Iterator[None]:
    """For a command: raises such a NoSegmentsError as :func:`nothing_found` does, with the names of options."""
    try:
        yield
    except NoSegmentsError as error:
        text = str(error)
    else:
        return
    for setting, option in (
        (f"{_SETTINGS.between}{_SETTINGS.key_prefix}", f"{_OPTIONS.between}{_OPTIONS.key_prefix}"),
        (_SETTINGS.layout, _OPTIONS.layout),
        (_SETTINGS.store, _OPTIONS.store),
    ):
        text = text.replace(setting, option)
    raise ConfigurationError(text)


def _first_keys(store: RemoteObjectStore) -> Iterator[str]:
    return (info.key for info in islice(store.list(""), _LOOKED_AT))


def _topics(topics: set[str]) -> str:
    names = sorted(topics)
    more = f" and {len(names) - _SHOWN_TOPICS} more" if len(names) > _SHOWN_TOPICS else ""
    return f"{'topic' if len(names) == 1 else 'topics'} {', '.join(names[:_SHOWN_TOPICS])}{more}"
