"""Searches for leaked secrets: collects the secrets of a test, and every text that the code produces.

Secrets: the query of every signed URL and its longer values, values of signed headers, data keys (as bytes, hexadecimal and
base64), and what the environment holds as a secret key. Texts: log lines of every logger at DEBUG, with their arguments and
tracebacks; messages, representations and pickles of every error of this package as it is raised; representations of locations;
metrics.
"""

from __future__ import annotations

import base64
import logging
import os
import pickle
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from unittest import mock
from urllib.parse import parse_qsl, unquote, urlsplit

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch import engine
from kafka_remote_client.location_metadata import LocationMetadata

__all__ = ["Canary"]

_SHORTEST = 12
_SHOWN = 40
_LOGGERS = ("", "kafka_remote_client", "kafka_remote_fetchers")


class Canary(logging.Handler):
    """A context manager; afterwards :meth:`leaks` returns the leaks. ``secrets`` and ``texts`` are the collected values."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.secrets: set[str] = set()
        self.texts: list[tuple[str, str]] = []
        self._guard = threading.Lock()
        self._patches: list[Any] = []
        self._levels: dict[str, int] = {}

    # -- what is collected ---------------------------------------------------------------------------------------------------

    def keep(self, *secrets: str | None) -> None:
        """Adds secrets. Values that are too short to distinguish from other text are left out."""
        with self._guard:
            self.secrets |= {secret for secret in secrets if secret and len(secret) >= _SHORTEST}

    def saw(self, where: str, text: object) -> None:
        """Adds a visible text."""
        self.texts.append((where, text if isinstance(text, str) else repr(text)))

    def forget(self) -> None:
        """Drops the texts so far, after a test that leaked on purpose."""
        self.texts.clear()

    def emit(self, record: logging.LogRecord) -> None:
        self.saw(f"log {record.name}", record.getMessage())
        self.saw(f"arguments of log {record.name}", repr(record.args))
        if record.exc_info:
            self.saw(f"traceback of log {record.name}", logging.Formatter().formatException(record.exc_info))

    def _location(self, location: LocationMetadata) -> None:
        if location.url:
            query = urlsplit(location.url).query
            self.keep(query, unquote(query), *(value for _, value in parse_qsl(query) if not value.isdigit()))
        self.keep(*(value for _, value in location.signed_headers))
        if location.data_key:
            key = location.data_key
            self.keep(key.hex(), base64.b64encode(key).decode(), repr(key), key.decode("latin-1"))
        self.saw("representation", repr(location))

    # -- hooks -----------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.keep(*(value for name, value in os.environ.items() if "SECRET" in name or "PASSWORD" in name or "TOKEN" in name))
        self._listen(LocationMetadata, "encode", self._on_encoded)
        self._listen(LocationMetadata, "decode", self._on_decoded)
        self._listen(DirectFetchError, "__init__", self._on_raised)
        self._listen(Consumer, "metrics", self._on_measured)
        self._listen(DirectConsumer, "close", self._on_closed)
        self._listen(engine, "locate", self._on_located)
        for name in _LOGGERS:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.setLevel(logging.DEBUG)
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        logging.getLogger().removeHandler(self)
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
        for patch in reversed(self._patches):
            patch.stop()

    def _listen(self, owner: Any, name: str, listener: Callable[[Callable[..., Any]], Any]) -> None:
        patch = mock.patch.object(owner, name, listener(getattr(owner, name)))
        patch.start()
        self._patches.append(patch)

    def _on_encoded(self, encode: Callable[..., bytes]) -> Any:
        def listening(location: LocationMetadata) -> bytes:
            self._location(location)
            return encode(location)

        return listening

    def _on_decoded(self, decode: Callable[..., LocationMetadata]) -> Any:
        def listening(data: bytes | None) -> LocationMetadata:
            location = decode(data)
            self._location(location)
            return location

        return staticmethod(listening)

    def _on_raised(self, initialise: Callable[..., None]) -> Any:
        def listening(error: DirectFetchError, *args: Any, **kwargs: Any) -> None:
            initialise(error, *args, **kwargs)
            name = type(error).__name__
            self.saw(f"error {name}", f"{error} {error!r} {error.args!r}")
            self.saw(f"pickled error {name}", pickle.dumps(error.args).decode("latin-1"))

        return listening

    def _on_measured(self, metrics: Callable[..., Any]) -> Any:
        def listening(consumer: Consumer) -> Any:
            measured = metrics(consumer)
            self.saw("metrics", repr(measured))
            return measured

        return listening

    def _on_closed(self, close: Callable[..., None]) -> Any:
        def listening(consumer: Consumer) -> None:
            self.saw("metrics", repr(consumer.metrics()))
            self.saw("representation", f"{consumer!r} {vars(consumer)!r}")
            close(consumer)

        return listening

    def _on_located(self, locate: Callable[..., Any]) -> Any:
        def listening(*args: Any, **kwargs: Any) -> Any:
            answers = locate(*args, **kwargs)
            for found in answers:
                self.saw("representation", f"{found!r} {getattr(found.answer, 'ranges', ())!r}")
            return answers

        return listening

    # -- result ----------------------------------------------------------------------------------------------------------------

    def leaks(self) -> list[str]:
        """Returns the places of leaked secrets, without the secrets."""
        # A test has thousands of texts and many secrets: one search for each secret, not one for each pair.
        everything = "\n".join({text for _, text in self.texts})
        shown = [secret for secret in self.secrets if secret in everything]
        if not shown:
            return []
        found = []
        for where, text in self.texts:
            for secret in shown:
                place = text.find(secret)
                if place >= 0:
                    found.append(f"{where}: {text[max(0, place - _SHOWN) : place]}<a secret>")
        return found
