"""The limit on open files of a process that serves many clients.

::

    2 for each connection     the client's side and the broker's
    1,024                     listeners, the store, the metadata follower, checks, management

A shell often begins with a soft limit of 1,024, which 500 clients use up. Then a shim accepts no connection, and cannot
ask whether a broker answers. The hard limit usually permits what ``max_connections`` needs.

References: getrlimit(2), RLIMIT_NOFILE.
"""

from __future__ import annotations

import logging
import resource
from contextlib import suppress

__all__ = ["allow_connections"]

_LOG = logging.getLogger(__name__)

_OTHERS = 1_024


def allow_connections(max_connections: int) -> None:
    """Raises the soft limit to what so many connections need. A WARNING says that the hard limit is lower."""
    needed = 2 * max_connections + _OTHERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with suppress(ValueError, OSError):  # macOS has a lower maximum of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft < 2 * max_connections:
        advice = "raise it (ulimit -n, LimitNOFILE), or lower max_connections"
        _LOG.warning("max_connections %d needs %d open files, and the limit is %d: %s", max_connections, needed, soft, advice)
