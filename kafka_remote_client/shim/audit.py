"""The audit log: one line for each grant, with the client and the granted range. Never a URL, a key, or a signature.

The logger ``kafka_remote_client.shim.audit`` gets it at INFO, as text of ``name=value`` and as fields of the record,
which a formatter for JSON writes as they are. Bytes and ranges add up to the counters ``bytes_granted`` and ``ranges_granted``.
"""

from __future__ import annotations

import json
import logging
from uuid import UUID

import attrs

from kafka_remote_client.model import uuid_to_text

__all__ = ["AUDIT_FIELDS", "Granted", "audit"]

_LOG = logging.getLogger(__name__)


@attrs.frozen
class Granted:
    """A grant in the audit log.

    ``principal`` is the subject of the client's certificate, "" = it showed none. ``client_id`` is what the client calls
    itself, which is not verified; ``client`` its address and port. Offsets go from the asked one to ``next_offset``, exclusive.
    """

    principal: str
    client_id: str
    client: str
    topic: str
    partition: int
    offset: int
    next_offset: int
    ranges: int
    bytes: int
    segment: UUID


AUDIT_FIELDS = tuple(field.name for field in attrs.fields(Granted))


def audit(granted: Granted) -> None:
    """Writes the line of one grant."""
    if not _LOG.isEnabledFor(logging.INFO):
        return
    told = {name: getattr(granted, name) for name in AUDIT_FIELDS} | {"segment": uuid_to_text(granted.segment)}
    text = " ".join(f"{name}={json.dumps(value)}" for name, value in told.items())
    _LOG.info("granted %s", text, extra={f"audit_{name}": value for name, value in told.items()})
