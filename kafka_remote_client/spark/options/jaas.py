"""Reads ``sasl.jaas.config``: one login module with its options. Pure.

::

    module class  control flag        option = "value"  …  ;
    dotted name   required, optional,  words, or text in double quotes with \\" and \\\\
                  requisite, sufficient

References: KIP-85; javax.security.auth.login.Configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from kafka_remote_client.errors import ConfigurationError

__all__ = ["LoginModule", "parse_jaas"]

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s="\\;]+)|([=;]))', re.DOTALL)
_MODULE = re.compile(r"ww(?:w=w)*;")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_KEY = "kafka.sasl.jaas.config"
_SHAPE = f'{_KEY} must have the form <login module> required <option>="<value>" ...;'


@attrs.frozen
class LoginModule:
    """A login module's class name and its options, which hold secrets: their values are in no ``repr``."""

    class_name: str
    options: Mapping[str, str] = attrs.field(repr=lambda options: f"<{len(options)} options>")

    @property
    def name(self) -> str:
        """The class without its package: nothing else distinguishes shaded and plain builds of the Kafka client."""
        return self.class_name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Raises ConfigurationError, which never shows the text, for anything but exactly one login module."""
    tokens = _tokens(text)
    signs = "".join(sign or "w" for _, sign in tokens)  # w = a word: the shape of the text without its content
    if not _MODULE.fullmatch(signs) or tokens[1][0].lower() not in _FLAGS:
        raise ConfigurationError(_SHAPE)
    words = [word for word, sign in tokens if not sign]
    return LoginModule(words[0], dict(zip(words[2::2], words[3::2], strict=True)))


def _tokens(text: str) -> list[tuple[str, str]]:
    """Words with an empty sign, and signs with an empty word."""
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConfigurationError(_SHAPE)
        quoted, plain, sign = found.groups()
        word = plain or "" if quoted is None else _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), quoted)
        tokens.append((word, sign or ""))
        at = found.end()
    return tokens
