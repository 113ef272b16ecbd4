"""Hypothesis takes one value in twenty from the constants in the code of imported modules. It has no setting for that.

Which modules are imported depends on the tests that a worker ran before, so a commit's examples would depend on time.
"""

from __future__ import annotations

from hypothesis.internal.conjecture import providers

__all__ = ["ignore_code_constants"]


def ignore_code_constants() -> None:
    """From now on Hypothesis draws the same examples whichever modules are imported. To be called before it draws one."""
    providers._get_local_constants = lambda: providers._local_constants
