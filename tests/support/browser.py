"""The browser of tests: Chromium, if it is on PATH. No test that needs it exists without it."""

from __future__ import annotations

import shutil

__all__ = ["BROWSER"]

BROWSER = shutil.which("chromium")
