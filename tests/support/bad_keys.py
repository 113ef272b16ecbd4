"""Keys of objects that are no path below a root."""

from __future__ import annotations

__all__ = ["BAD_KEYS"]

BAD_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../secret",
    "a/../../secret",
    "a/b/../../../secret",
    "a/..",
    "./a",
    "a/.",
    "a//b",
    "a/",
    "a\0b",
    "\0",
    "a\nb",
    "a\rb",
    "a\x7fb",
    "..\\secret",
    "a\\b",
    "x" * 1025,
    "\ud800",
]
