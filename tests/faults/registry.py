"""The numbered faults that a reader survives: what goes wrong, what the user sees, and how long it takes.

A test names its faults with the marker ``fault``, a cell of the matrix with its scenario's ``faults``::

    @pytest.mark.fault("F57", "F58")
    def test_a_shim_that_dies_costs_speed_only(): ...

tests/faults/test_registry.py fails if a number has no test, or if docs/reliability.md has no row for it.

Times name settings: read is ``fetch.remote.read.timeout.ms`` (5 s), connect is ``fetch.remote.connect.timeout.ms`` (1 s),
location is ``fetch.remote.location.timeout.ms`` (1 s). "Pauses" are those between two attempts, at most 2 s each;
pending is ``fetch.remote.pending.timeout.ms``.
"""

from __future__ import annotations

import attrs

__all__ = ["FAULTS", "STORE_FAULTS", "Fault"]

_SAME = "the same records; that range arrives later"
_BROKER = "the same records, from the broker"
_RELOCATED = "the same records, from a fresh location, else from the broker"
_SLOWLY = "the same records, from the broker while that is more than twice as fast; then the store is tried again"
_HALTED = (
    "the same records; that range arrives later. Damaged at the broker too: one error with its place, and no record past it"
)
_AT_ONCE = "at once"
_RETRIES = "2 more attempts and their pauses, within read each"
_ONE_MORE = "1 more attempt"
_LOCATION = "location"


_DATA = frozenset({"F40", "F42", "F45", "F46"})


@attrs.frozen
class Fault:
    """A numbered fault. ``sees``: what the application notices; ``within``: the longest delay of a record.

    ``injected`` False: unusual but valid data. The scenario injects nothing, so it does not count.
    """

    number: str
    what: str
    sees: str
    within: str

    @property
    def injected(self) -> bool:
        return self.number not in _DATA


_ROWS = (
    # -- the store answers with something other than the range ------------------------------------------------------------
    ("F01", "the URL has expired before it is used (403, 400 ExpiredToken, Azure's form)", _RELOCATED, _LOCATION),
    ("F02", "the URL expires between two ranges", _RELOCATED, _LOCATION),
    ("F03", "the URL expires before the retry of a truncated body", _RELOCATED, _LOCATION),
    ("F04", "the signature is damaged", _RELOCATED, _LOCATION),
    ("F05", "credentials are revoked or replaced", _RELOCATED, _LOCATION),
    ("F06", "404: retention has deleted the segment", _RELOCATED, _LOCATION),
    ("F07", "404 or 403 of a store that lags, or of a deleted bucket", _RELOCATED, _LOCATION),
    ("F08", "416: the object is shorter than its metadata says, or empty", _RELOCATED, _LOCATION),
    ("F09", "500, 502, 504", _SAME, _RETRIES),
    ("F10", "503 SlowDown, 429 with Retry-After", _SAME, "10 more attempts and their pauses, or until the breaker opens"),
    ("F11", "200 whose body is an error document", _SAME, _RETRIES),
    ("F12", "a redirect", f"{_BROKER}; the client sends no request to the other place", _AT_ONCE),
    ("F13", "200 with the whole object: the store does not support ranges", _BROKER, _RETRIES),
    ("F14", "206 with a wrong, missing or overlapping Content-Range", _SAME, _RETRIES),
    ("F15", "more or fewer bytes than the head says; multipart/byteranges", _SAME, _RETRIES),
    ("F16", "a body with gzip encoding that the client did not request", _SAME, _RETRIES),
    # -- the connection to the store --------------------------------------------------------------------------------------
    ("F17", "the connection is refused", _BROKER, _RETRIES),
    ("F18", "the connection is never answered (SYN dropped)", _BROKER, "connect"),
    ("F19", "the store's name does not resolve, slowly, or to nothing", _BROKER, "connect, or its attempts and pauses"),
    ("F20", "a certificate that is expired, of another host, or of an unknown authority", _BROKER, _AT_ONCE),
    ("F21", "the TLS handshake stalls", _BROKER, "connect"),
    ("F22", "plaintext on the TLS port", f"{_BROKER}; never a downgrade", _AT_ONCE),
    ("F23", "a stall before the head", _BROKER, "read"),
    ("F24", "a trickle", _BROKER, "read"),
    (
        "F25",
        "an established connection stops responding: before the head, in a batch, or in the pool",
        _BROKER,
        "read; the store is used again within 30 s",
    ),
    ("F26", "RST in the body", _SAME, _RETRIES),
    ("F27", "the body ends early", _SAME, _RETRIES),
    (
        "F28",
        "the body is cut at any byte",
        "the same records; complete ones before the cut are not requested again, the rest arrives later",
        _RETRIES,
    ),
    ("F29", "the store answers more slowly than the broker", _SLOWLY, "4 ranges that take at least 2 s"),
    # -- the bytes --------------------------------------------------------------------------------------------------------
    ("F30", "bits flip where the checksum covers them", _HALTED, _ONE_MORE),
    ("F31", "bits flip in bytes 0-16 of a batch, which no checksum covers", _SAME, _ONE_MORE),
    ("F32", "another segment's bytes, or zeros", _BROKER, _ONE_MORE),
    ("F33", "another topic's bytes, or those of another leader epoch", _BROKER, _ONE_MORE),
    ("F34", "a batch length that is negative, zero or huge", _BROKER, _ONE_MORE),
    ("F35", "a record count that is negative or huge", _BROKER, _ONE_MORE),
    ("F36", "a record count that differs from the records there", _BROKER, _ONE_MORE),
    ("F37", "a varint of more than 5 or 10 bytes", _BROKER, _ONE_MORE),
    ("F38", "sizes of keys, values or headers that are negative", _BROKER, _ONE_MORE),
    ("F39", "sizes that reach past the end of their record", _BROKER, _ONE_MORE),
    (
        "F40",
        "message sets of magic 0 and 1, compressed or not; LogAppendTime",
        "the broker's records",
        _AT_ONCE,
    ),
    ("F41", "an unknown magic", _BROKER, _AT_ONCE),
    ("F42", "a batch larger than a range", "the same records", _AT_ONCE),
    ("F43", "a decompression bomb of any codec", _BROKER, _ONE_MORE),
    ("F44", "compressed data cut short or with a tail; an unknown codec", _BROKER, _ONE_MORE),
    (
        "F45",
        "empty batches, control batches, holes of compaction, a batch without its last record",
        "the same records",
        _AT_ONCE,
    ),
    (
        "F46",
        "transactions across segments, tiers and ends of ranges",
        "no record of an aborted transaction, every record of a committed one",
        _AT_ONCE,
    ),
    ("F47", "a list of aborted transactions that is late, unsorted or has duplicates", "as F46", _AT_ONCE),
    ("F48", "an incomplete list of aborted transactions; a marker in a later segment", "as F46", _AT_ONCE),
    (
        "F49",
        "a chunked or encrypted object whose location does not say so, or has no key or a wrong one; an unknown format",
        _BROKER,
        _AT_ONCE,
    ),
    # -- metadata and shim ------------------------------------------------------------------------------------------------
    ("F50", "an entry of the offset index is wrong", "the same records", _LOCATION),
    ("F51", "the offset index is missing", "the same records", _LOCATION),
    ("F52", "a segment was uploaded again under another id", "the same records", _LOCATION),
    ("F53", "a location is used after its segment was deleted", _RELOCATED, _LOCATION),
    ("F54", "the metadata topic lags or has a gap", _BROKER, _LOCATION),
    ("F55", "the metadata topic holds an unknown version, or tombstones", _BROKER, _LOCATION),
    ("F56", "a copy never finished; a segment is deleted during its read", _RELOCATED, _LOCATION),
    ("F57", "the shim is down or is killed", "as if the broker were down; reading continues when the shim is back", _LOCATION),
    ("F58", "the shim restarts again and again, or is slow", "the same records", _LOCATION),
    ("F59", "the shim's answer is garbage, or belongs to another request", "the same records", _LOCATION),
    ("F60", "clocks of shim, store and client differ", "nothing", _AT_ONCE),
    ("F61", "two shims disagree; an old shim with a new client, and the reverse", "the same records", _LOCATION),
    # -- broker, group, application ---------------------------------------------------------------------------------------
    ("F62", "a leader is elected while a range is in flight", "the same records", _LOCATION),
    ("F63", "an unclean election truncates the log below the position", "the plain consumer's error or reset", _LOCATION),
    ("F64", "retention or DeleteRecords passes the position", "the plain consumer's error or reset", _LOCATION),
    ("F65", "the topic is deleted and created again", "the plain consumer's error or reset", _LOCATION),
    ("F66", "a rebalance with ranges in flight: eager, cooperative, static", "no record after the revocation", _AT_ONCE),
    ("F67", "partitions are revoked, lost, and immediately assigned again", "no record after the revocation", _AT_ONCE),
    ("F68", "seek, pause, resume, offsets_for_times, commit or close during a read", "as the plain consumer's", _AT_ONCE),
    ("F69", "a fork, or a second thread that closes", "as the plain consumer's", _AT_ONCE),
    ("F70", "the consumer is killed at any moment and starts again", "at least once from the last commit", _AT_ONCE),
    ("F71", "a commit fails; max.poll.interval.ms is exceeded", "as the plain consumer's", _AT_ONCE),
    ("F72", "a slow application; a thousand partitions; segments of 1 GiB", "the same records in bounded memory", _AT_ONCE),
    ("F73", "the hand-over at the end of the tier while segments are being tiered", "the same records", _LOCATION),
    (
        "F74",
        "the store is unreachable for twenty consumers at the same time",
        f"{_BROKER}; a breaker stops requests to the store",
        _RETRIES,
    ),
    (
        "F75",
        "Spark: executors are killed, tasks run twice, a driver restarts, URLs expire during their task",
        "rows equal the oracle's",
        "the task's retry",
    ),
    # -- hedges and batches of locations ----------------------------------------------------------------------------------
    ("F76", "one range is answered late, or never", "the same records, from the store by a hedge", _AT_ONCE),
    ("F77", "a hedge fails, or answers with another version or length", _SAME, _RETRIES),
    ("F78", "a location stays pending; a shim decides only a part of a batch", _BROKER, "pending; no other partition waits"),
    # -- settings of a topic -----------------------------------------------------------------------------------------------
    (
        "F79",
        "copying to the tier is disabled; then tiering is, and its segments are deleted",
        "the same records, from the store while it has them; then the plain consumer's error or reset",
        _LOCATION,
    ),
)

FAULTS: dict[str, Fault] = {row[0]: Fault(*row) for row in _ROWS}
"""All faults by number, F01 to F79."""

STORE_FAULTS = tuple(
    number for number, fault in FAULTS.items() if (number <= "F49" or number in ("F76", "F77", "F78")) and fault.injected
)
"""The faults of a store, and of the shim's answers about it, that the matrix injects."""
