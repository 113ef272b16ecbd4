"""Prometheus's promtool: of PATH, or as .ci/parts.py unpacked it. No test that needs it exists without it."""

from __future__ import annotations

import os
import shutil

from tests.support.artifacts import CACHE

__all__ = ["PROMTOOL"]

PROMTOOL = shutil.which(
    "promtool", path=os.pathsep.join([os.environ.get("PATH", ""), str(CACHE / "prometheus" / "usr" / "bin")])
)
