"""From names to plugins: fetchers by ``remote.storage.fetcher.class``, stores and signers by URL scheme. Loaded when asked for.

A fetcher is named in one of two ways:

- a name of the entry-point group ``kafka_remote_client.fetchers``: what is installed may be used;
- ``package.module:Class``: only if that very text stands in ``remote.storage.fetcher.allowed.classes`` (comma separated), or
  if it is loaded from ``remote.storage.fetcher.class.path``, which ``fetch.remote.allow.class.path=true`` has to permit.

Names come from the user's own configuration and never from a broker's answer.

References: KIP-1254 "New Consumer Configs"; reliability promise S16.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

from kafka_remote_client import arguments
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError, MissingExtraError
from kafka_remote_client.plugin import DeclaresSettings, ObjectSigner, RemoteObjectStore, RemoteStorageFetcher
from kafka_remote_client.settings import FETCHER_PREFIX, unknown_setting

__all__ = [
    "FETCHERS",
    "INSPECTORS",
    "LAYOUTS",
    "SIGNERS",
    "STORAGE_FORMATS",
    "STORES",
    "check_class_name",
    "check_settings",
    "check_store_options",
    "fetcher_names",
    "load_fetcher",
    "load_named",
    "load_signer",
    "load_store",
    "plugin_names",
    "signer_schemes",
]

FETCHERS = "kafka_remote_client.fetchers"
STORES = "kafka_remote_client.stores"
SIGNERS = "kafka_remote_client.signers"
LAYOUTS = "kafka_remote_client.layouts"
INSPECTORS = "kafka_remote_client.layout_inspectors"
STORAGE_FORMATS = "kafka_remote_client.storage_formats"

_CLASS = "remote.storage.fetcher.class"
_ALIKE = 0.75
"""From which ratio on a key is taken for a misspelled one; see :func:`kafka_remote_client.arguments.closest`."""
_ALLOWED_CLASSES = "remote.storage.fetcher.allowed.classes"
_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_URL_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.ASCII)
_EXTRAS = re.compile(r"\[([^\]]+)\]")
_MAX_NAME = 200


def fetcher_names() -> list[str]:
    """The names that ``remote.storage.fetcher.class`` can take."""
    return plugin_names(FETCHERS)


def signer_schemes() -> list[str]:
    """The URL schemes of stores whose objects URLs can be signed for, besides those that the shim serves itself."""
    return plugin_names(SIGNERS)


def load_fetcher(config: RemoteFetchConfig, store: RemoteObjectStore | None = None) -> RemoteStorageFetcher:
    """A new fetcher of the configured class, already configured. ``store`` reads settings under the same prefix beside it.

    Raises ConfigurationError for a class that does not exist, may not be used or is no fetcher, for a setting that neither it
    nor ``store`` reads, and what its ``configure`` raises; MissingExtraError where a package that the class needs is missing.
    """
    name = config.fetcher_class
    if not name:
        raise ConfigurationError(f"{_CLASS} is not set; known fetchers: {', '.join(fetcher_names())}")
    if config.fetcher_class_path is not None and not config.allow_class_path:
        raise ConfigurationError(f"{_CLASS}.path needs fetch.remote.allow.class.path=true")
    found = _installed(FETCHERS).select(name=name)
    if found:
        loaded = _load_entry(_only(found, name))
    else:
        _check_permitted(name, config)
        loaded = _load_dotted(name, config.fetcher_class_path)
    if not (isinstance(loaded, type) and issubclass(loaded, RemoteStorageFetcher)):
        raise ConfigurationError(f"{_CLASS}: {name} is not a class with configure, fetch_log_segment and close")
    fetcher: RemoteStorageFetcher = _build(loaded, name)
    check_settings(config, fetcher, *([] if store is None else [store]))
    fetcher.configure(config.fetcher_configs())
    return fetcher


def check_settings(config: RemoteFetchConfig, *plugins: object) -> None:
    """Raises ConfigurationError for a key below ``remote.storage.fetcher.`` that no plugin reads.

    A plugin that does not declare its settings may read any key.
    """
    valid = {_ALLOWED_CLASSES}
    for plugin in plugins:
        if not isinstance(plugin, DeclaresSettings):
            return
        valid |= plugin.settings
    unknown = next((name for name in config.fetcher_options if name not in valid), None)
    if unknown is not None:
        check_class_name(config)
        where = f" of fetcher '{config.fetcher_class}'" if config.fetcher_class else " of the store"
        raise unknown_setting(unknown, valid, where)


def check_class_name(config: RemoteFetchConfig) -> None:
    """Raises ConfigurationError for a misspelled ``remote.storage.fetcher.class``. Without it no fetcher checks the keys."""
    for name in config.fetcher_options:
        if arguments.closest(name.removeprefix(FETCHER_PREFIX), [_CLASS.removeprefix(FETCHER_PREFIX)], _ALIKE):
            raise unknown_setting(name, [_CLASS])


def plugin_names(group: str) -> list[str]:
    """The names of all plugins of an entry-point group."""
    return sorted({entry.name for entry in _installed(group)})


def load_named(group: str, what: str, name: str) -> Any:
    """What the entry point ``name`` of a group stands for; ``what`` is what the group's plugins are called in messages.

    Raises ConfigurationError for another name, with those that exist, and for a plugin that fails to load; MissingExtraError.
    """
    found = _installed(group).select(name=name)
    if not found:
        raise ConfigurationError(f"unknown {what} {name!r}; known {what}s: {', '.join(plugin_names(group))}")
    return _load_entry(_only(found, name))


def check_store_options(options: Mapping[str, object] | None, *plugins: object) -> None:
    """Raises ConfigurationError for an option of a store that none of its ``plugins`` (store, signer) reads.

    Options have no prefix. A plugin that does not declare its settings may read any.
    """
    valid: set[str] = set()
    for plugin in plugins:
        if not isinstance(plugin, DeclaresSettings):
            return
        valid |= {name.removeprefix(FETCHER_PREFIX) for name in plugin.settings}
    unknown = next((name for name in options or {} if name not in valid), None)
    if unknown is not None:
        raise unknown_setting(unknown, valid, " of the store")


def load_store(url: str, options: Mapping[str, object] | None = None) -> RemoteObjectStore:
    """The object store that a URL names, by its scheme. Messages show the scheme and nothing else of it.

    ``options``: settings of the fetcher of that store without their prefix ``remote.storage.fetcher.``, such as
    ``s3.endpoint.url``; a store takes its own from among them.

    Raises ConfigurationError for an unknown scheme and what the store raises for its URL; MissingExtraError.
    """
    store: RemoteObjectStore = _load_by_scheme(STORES, url, options)
    return store


def load_signer(url: str, options: Mapping[str, object] | None = None) -> ObjectSigner:
    """What signs URLs of the objects of the store that a URL names. Takes and raises as :func:`load_store`."""
    signer: ObjectSigner = _load_by_scheme(SIGNERS, url, options)
    return signer


def _installed(group: str) -> EntryPoints:
    """The plugins of an entry-point group that are installed now."""
    return _listed(group, tuple((place, _modified(place)) for place in sys.path))


@lru_cache(maxsize=16)
def _listed(group: str, places: tuple[tuple[str, int], ...]) -> EntryPoints:  # noqa: ARG001 - of the key
    """Cached, because a search reads a file of each installed distribution. An installation modifies one of the ``places``."""
    return entry_points(group=group)


def _modified(place: str) -> int:
    """When a directory or archive was modified, in ns; 0 if it does not exist."""
    try:
        return os.stat(place or ".").st_mtime_ns  # noqa: PTH116 - sys.path has texts
    except OSError:
        return 0


def _load_by_scheme(group: str, url: str, options: Mapping[str, object] | None) -> Any:
    scheme = _URL_SCHEME.match(url)
    found = _installed(group).select(name=scheme[1]) if scheme else None
    if scheme is None or not found:
        names = ", ".join(f"{name}://" for name in plugin_names(group))
        directory = "; a directory is file:///DIR" if url.startswith(("/", ".", "~")) else ""
        raise ConfigurationError(f"the store URL must start with one of: {names}{directory}")
    return _build(_load_entry(_only(found, scheme[1])), scheme[1], url, dict(options or {}))


def _check_permitted(name: str, config: RemoteFetchConfig) -> None:
    if len(name) > _MAX_NAME or not _DOTTED.fullmatch(name):
        shown = name[:_MAX_NAME]
        raise ConfigurationError(f"{_CLASS}: unknown fetcher {shown!r}; known fetchers: {', '.join(fetcher_names())}")
    allowed = str(config.fetcher_options.get(_ALLOWED_CLASSES) or "").split(",")
    if config.fetcher_class_path is None and name not in (entry.strip() for entry in allowed):
        raise ConfigurationError(f"{_CLASS}: {name} is neither an installed fetcher nor listed in {_ALLOWED_CLASSES}")


def _only(found: EntryPoints, name: str) -> EntryPoint:
    """The one plugin of that name; the same one may be registered by several copies of its distribution."""
    values = {entry.value for entry in found}
    if len(values) > 1:
        raise ConfigurationError(f"several installed plugins are named {name}: {', '.join(sorted(values))}")
    return next(iter(found))


def _load_entry(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        missing = error.name or "a module"
    except Exception as error:
        raise ConfigurationError(f"the plugin {entry.name} ({entry.value}) failed to load: {type(error).__name__}") from error
    if entry.module == missing or entry.module.startswith(f"{missing}."):
        raise ConfigurationError(f"the plugin {entry.name} is registered, but its module {entry.module} is not installed")
    raise MissingExtraError(f"the plugin {entry.name} needs {missing}: pip install {_requirement(entry, missing)}")


def _requirement(entry: EntryPoint, missing: str) -> str:
    """What pip is to install: the distribution with the extra that brings the module, where that can be told."""
    assert entry.dist is not None  # entry_points() gives none without
    provided = entry.dist.metadata.get_all("Provides-Extra") or []
    named = _EXTRAS.search(entry.value)  # EntryPoint.extras takes object-store for two
    extras = named[1].replace(" ", "").split(",") if named else [extra for extra in provided if extra == entry.name]
    return f"'{entry.dist.name}[{','.join(extras)}]'" if extras else missing.partition(".")[0]


def _load_dotted(name: str, class_path: str | None) -> Any:
    module_name, _, class_name = name.partition(":")
    try:
        module = importlib.import_module(module_name) if class_path is None else _import_from(Path(class_path), module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise ConfigurationError(f"{_CLASS}: module {module_name} does not exist") from None
        raise MissingExtraError(f"{_CLASS}: {name} needs {missing}: pip install {missing.partition('.')[0]}") from None
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{_CLASS}: {name} failed to load: {type(error).__name__}") from error
    if not hasattr(module, class_name):
        raise ConfigurationError(f"{_CLASS}: module {module_name} has no class {class_name}")
    return getattr(module, class_name)


def _import_from(directory: Path, module_name: str) -> Any:
    """Imports from that directory only: a module of the same name from elsewhere is refused."""
    root = directory.resolve()
    sys.path.insert(0, str(root))
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(module_name)
    finally:
        sys.path.remove(str(root))
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).resolve().is_relative_to(root):
        raise ConfigurationError(f"{_CLASS}.path: module {module_name} was loaded from another directory")
    return module


def _build(loaded: Callable[..., Any], name: str, *arguments: object) -> Any:
    try:
        return loaded(*arguments)
    except TypeError as error:
        raise ConfigurationError(f"the plugin {name} cannot be created: its constructor must accept (url, options)") from error
