"""The numbered security promises of client and shim: each has a threat, and the outcome of an attack.

A test names its promise in its own name (``test_s01_…``) or with the marker ``fault``. tests/faults/test_registry.py
fails if a number has no test. S06 to S15 are the shim's.
"""

from __future__ import annotations

import attrs

__all__ = ["PROMISES", "Promise"]


@attrs.frozen
class Promise:
    """``threat``: the attack; ``outcome``: its result."""

    number: str
    threat: str
    outcome: str


_ROWS = (
    ("S01", "a location leads to a place of the attacker's choice", "refused before anything is resolved or connected"),
    ("S02", "an allowed name resolves to a private address", "refused; the client connects to the address that it checked"),
    ("S03", "redirects, proxy variables, .netrc", "not followed, not read"),
    ("S04", "a certificate that is not the store's", "refused before the request; no setting turns the check off"),
    ("S05", "signed URLs, tokens and keys in logs, errors, representations, metrics, pickles", "none of these contains one"),
    ("S06", "a signed URL is used for more than it was made for", "403: one object, one range, GET, until it expires"),
    (
        "S07",
        "a client asks for locations of a topic that it may not read",
        "the broker's own answer, byte for byte: it is asked on the client's connection before each grant",
    ),
    ("S08", "a client has lost READ", "no new location from then on; its URLs end with their lifetime"),
    (
        "S09",
        "a shim between client and broker sees the client's secrets",
        "SASL passes unread and is in no log; brokers see the client's own principal",
    ),
    ("S10", "other traffic is changed by the shim", "producers, groups and tools work as without it; only addresses differ"),
    ("S11", "lengths of frames that are negative or huge", "refused before memory is taken; that connection ends, no other"),
    ("S12", "peers that are slow, never read, or never finish a handshake", "closed by deadlines; memory keeps its bound"),
    ("S13", "answers mixed up between clients or requests", "each goes to the request that it belongs to, in order"),
    (
        "S14",
        "a client finds out what is tiered",
        "nothing: denied and missing topics look alike; the shim itself reads one topic",
    ),
    (
        "S15",
        "the shim's own secrets in arguments, settings that are shown, logs, metrics",
        "none of these contains one; a secret in an argument is refused",
    ),
    ("S16", "the name of a fetcher's class leads to code of the attacker's choice", "refused; an answer can choose no class"),
    ("S17", "a key leads out of the local fetcher's root", "refused: no dots, no links, regular files only"),
    ("S18", "a location smuggles headers into a request", "refused: names are whitelisted, values hold no line break"),
    ("S19", "sizes that overflow, bombs, input that is slow to parse", "a typed error, in bounded memory and linear time"),
    (
        "S20",
        "an encrypted chunk or its key is tampered with",
        "no byte is used before its tag is verified; no output shows the key",
    ),
    ("S21", "a shim that lies", "records arrive late at worst; never wrong records, a request to another host, or a crash"),
    (
        "S22",
        "an unknown run-time dependency or licence",
        "each is pinned to one version and has a permitted licence; `make supply-chain` lists them",
    ),
)

PROMISES: dict[str, Promise] = {row[0]: Promise(*row) for row in _ROWS}
"""All promises by number."""
