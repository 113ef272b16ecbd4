"""The numbered promises of security that the client keeps: the threat, and what comes of an attack.

A test says which of them it is about by its name (``test_s01_…``) or with the marker ``fault``. tests/faults/test_registry.py
fails where a number has no test. The shim's own are in docs/shim.md.
"""

from __future__ import annotations

import attrs

__all__ = ["PROMISES", "Promise"]


@attrs.frozen
class Promise:
    """``threat``: what is attempted; ``outcome``: what comes of it."""

    number: str
    threat: str
    outcome: str


_ROWS = (
    ("S01", "a location leads to a place of the attacker's choice", "refused before anything is resolved or connected"),
    ("S02", "an allowed name resolves to an address inside", "refused; the address that was checked is the one connected to"),
    ("S03", "redirects, proxy variables, .netrc", "not followed, not read"),
    ("S04", "a certificate that is not the store's", "refused before the request; there is no switch to turn that off"),
    ("S05", "signed URLs, tokens and keys in logs, errors, representations, metrics, pickles", "none is in any of them"),
    ("S16", "the name of a fetcher's class leads to code of the attacker's choice", "refused; an answer can choose no class"),
    ("S17", "a key leads out of the local fetcher's root", "refused: no dots, no links, regular files only"),
    ("S18", "a location smuggles headers into a request", "refused: names are whitelisted, values hold no line break"),
    ("S19", "sizes that overflow, bombs, input that is slow to parse", "a typed error, in bounded memory and linear time"),
    (
        "S20",
        "an encrypted chunk or its key is tampered with",
        "no byte is used before its tag is right; the key is shown nowhere",
    ),
    ("S21", "a shim that lies", "late records at worst: never wrong ones, another host asked, or a crash"),
)

PROMISES: dict[str, Promise] = {row[0]: Promise(*row) for row in _ROWS}
"""All promises by number."""
