"""When a client counts as admitted by its broker, and which requests it may send before.

The shim does not read SASL, so it cannot see whether a client has authenticated. It sees whether the broker serves the client:
a broker that waits for SASL refuses all requests but three, and closes the connection. So before the first request that is none
of these three the shim sends its own request, Metadata for no topic, which needs no rights. An answer that names a broker
admits the client. During a SASL exchange a broker answers with an error before it closes; that answer names no broker. The
client's own requests cannot show this: JoinGroup is answered minutes later, Produce with acks=0 never. ::

    state    | request for versions or SASL | any other, small | any other, large or for a location | answer to the shim
    NEW      | passes                       | the shim's first | the shim's first, then it waits    |
    ASKED    | passes                       | passes           | waits                              | -> ADMITTED, or NEW
    ADMITTED | passes                       | passes           | passes                             |

A request for versions or SASL of more than 64 KiB, or the 65th such request, ends a connection that is not admitted. Nothing of
such a connection is collected. The rule is the same on all listeners.

Requests for versions or SASL set up a connection, also those after the admission. A client that sends one is setting up until
it sends another request. Its work then has the same small share of the event loop as that of clients that are not admitted.

Some clients ask for versions and then send no request: librdkafka connects to the coordinator of a group that it never uses.
After half of the time for the admission, the shim sends its request for such a client too, once. A broker that waits for SASL
closes the connection, which the shim would otherwise close itself. The time for the admission stays the same for all clients.
A client that has asked for versions more than 4 times is no such client. It stays among those that share a small part of the
event loop.

References: KIP-43, KIP-152, KIP-368 (what a broker accepts before and during authentication).
"""

from __future__ import annotations

from enum import Enum

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.metadata import MetadataRequest, decode_response, encode_request
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.wire import Buffer

__all__ = ["MAX_BYTES_BEFORE", "MAX_REQUESTS_BEFORE", "QUESTION", "QUESTION_VERSION", "ClientAdmission", "Entry"]

MAX_BYTES_BEFORE = 64 << 10
"""Length of a request from a client that is not admitted."""

MAX_REQUESTS_BEFORE = 64
"""Requests for versions or SASL from a client that is not admitted. Mechanisms of SASL need fewer than ten."""

_FEW_REQUESTS = 4
"""Requests for versions of a client that sends nothing else. Clients ask again once if the broker has no such version."""

QUESTION_VERSION = 9
QUESTION = encode_request(MetadataRequest((), allow_auto_topic_creation=False), QUESTION_VERSION)
"""The body of the shim's own request, a Metadata."""

_BEFORE = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})


class Entry(Enum):
    """The action for a request."""

    PASSES = "passes"
    ASK_FIRST = "ask first"
    ASK_AND_WAIT = "ask and wait"
    WAITS = "waits"


class _State(Enum):
    NEW = "new"
    ASKED = "asked"
    ADMITTED = "admitted"


_OTHER = {
    # state: (a small request, one that is large or collected)
    _State.NEW: (Entry.ASK_FIRST, Entry.ASK_AND_WAIT),
    _State.ASKED: (Entry.PASSES, Entry.WAITS),
    _State.ADMITTED: (Entry.PASSES, Entry.PASSES),
}


class ClientAdmission:
    """The state of one client."""

    def __init__(self) -> None:
        self._state = _State.NEW
        self._before = 0
        self._latest_sets_up = False
        self._versions_alone: bool | None = None
        """Whether the client has asked for versions and nothing else. ``None`` = it has sent no request."""

    @property
    def admitted(self) -> bool:
        """Whether the broker serves this client."""
        return self._state is _State.ADMITTED

    @property
    def setting_up(self) -> bool:
        """Whether the client is not admitted, or its latest request is for versions or SASL."""
        return self._latest_sets_up or not self.admitted

    def entry(self, head: RequestHead, length: int, *, collected: bool) -> Entry:
        """What happens with a request of ``length`` bytes. Raises ProtocolError for a large one that is for versions or SASL,
        and for one too many of these.

        The caller sends the question where this says so.
        """
        large = length > MAX_BYTES_BEFORE
        self._versions_alone = self._versions_alone is not False and head.api_key == ApiKey.API_VERSIONS
        self._latest_sets_up = head.api_key in _BEFORE
        if not self._latest_sets_up:
            entry = _OTHER[self._state][large or collected]
            if self._state is _State.NEW:
                self._state = _State.ASKED
            return entry
        if not self.admitted:
            self._before += 1
            if large:
                raise ProtocolError(f"a request of {length} bytes before authentication exceeds {MAX_BYTES_BEFORE}")
            if self._before > MAX_REQUESTS_BEFORE:
                raise ProtocolError(f"more than {MAX_REQUESTS_BEFORE} requests before authentication")
        return Entry.PASSES

    def asks_late(self) -> bool:
        """Whether the caller now sends the question about a client that has only asked for versions, a few times at most. True
        at most once.
        """
        if not self._versions_alone or self._before > _FEW_REQUESTS:
            return False
        self._versions_alone = False
        self._state = _State.ASKED
        return True

    def answered(self, answer: Buffer) -> None:
        """The broker has answered the question with this body. Raises ProtocolError for an invalid answer."""
        served = decode_response(answer, QUESTION_VERSION).brokers
        self._state = _State.ADMITTED if served else _State.NEW
