"""What must have happened sometimes: events that a simulation is for, by name. A campaign shows how often each was seen."""

from __future__ import annotations

from collections import Counter

__all__ = ["SOMETIMES", "Occurrences"]

SOMETIMES = {
    "hedge-won": "a hedge brings the range before the first GET",
    "hedge-won-late": "a hedge wins after the answer to the first GET began",
    "hedge-lost": "the first GET brings the range before its hedge",
    "hedge-failed": "a GET fails while another GET of its range is in flight",
    "overdue-returned": "a fetcher returns after its GET was given up",
    "overdue-wrote": "a fetcher writes to its buffer after its GET was given up",
    "out-of-order": "a range arrives before an earlier range of its grant",
    "range-cuts-batch": "the end of a range cuts a batch",
    "cut-then-whole": "an answer is cut, and a later GET of the range succeeds",
    "damaged-then-good": "a range is damaged, and the second GET of it is good",
    "damaged-twice": "a range is damaged in both GETs, so the broker continues",
    "url-expired": "the store refuses a URL that has expired",
    "url-expired-for-hedge": "the URL of a range expires between its first GET and the hedge",
    "url-renewed": "ranges that wait get new URLs",
    "segment-gone": "a segment is deleted between its location and a GET",
    "relocated": "a new location is requested after a failed GET",
    "log-start-passed": "the log's start moves past a read's position",
    "stopped-in-flight": "a read stops while its GETs are in flight",
    "stopped-decoding": "a read stops while a range of it is decoded",
    "stopped-locating": "a read stops while its location is requested",
    "stopped-holding": "a read stops while its owner holds a block",
    "location-pending": "a location is pending",
    "location-pending-too-long": "a location stays pending until the time-out",
    "location-failed": "a location request fails",
    "location-throttled": "the broker throttles a location request",
    "location-bad": "a peer answers with a location that a client must refuse",
    "location-ahead": "a location is requested while earlier ranges are read",
    "locations-together": "one request asks for locations of several partitions",
    "two-batches": "two requests for locations are in flight at once",
    "breaker-open": "reads end because the breaker is open",
    "retried": "a GET is repeated",
    "retry-after": "a GET is repeated after the store's Retry-After",
    "aborted-across-grants": "an aborted transaction goes over the end of a grant",
    "start-inside-batch": "a read starts inside a batch",
    "end-inside-batch": "a read's bound is inside a batch",
    "passed-markers": "a read passes markers or aborted records behind its last record",
    "nothing-visible": "a range has no visible record",
    "memory-short": "a GET takes memory so that a second one of its size would not fit",
    "larger-than-memory": "a GET needs more than the whole memory and gets it alone",
    "ended-local": "a read ends where the local log begins",
    "ended-bound": "a read ends at its bound",
    "broker-slower": "a partition returns from the broker, which was not faster than the store",
    "broker-faster": "a partition stays with the broker, which was faster than the store in a trial",
    "handed-over": "a consumer's read ends, and the broker continues",
    "fell-back": "a consumer's read fails, and the broker continues",
    "seek-refused": "librdkafka refuses a seek, because it has not started the partition",
    "broker-denied": "the broker refuses a fetch of a client that lost READ",
    "broker-out-of-range": "the broker refuses an offset below the log's start, or has no epoch of it",
    "broker-went-back": "librdkafka finds that the log of its position was cut, and goes back",
    "consumer-changed-log": "a consumer delivers the first record of another log of its partition",
    "revoked-with-records": "a member gives up its partitions while blocks wait",
    "rebalanced": "members give up partitions in a rebalance",
    "revoked-in-part": "a member gives up some of its partitions, and keeps others",
    "kept-with-records": "a member gives up some of its partitions while blocks of others wait",
    "assigned-more": "a member that has partitions gets more",
    "assigned-nothing-new": "a cooperative rebalance changes nothing for a member",
    "rebalance-restarted": "a cooperative rebalance begins while a member serves the one before",
    "crashed": "an application crashes, and a new one starts later",
    "coordinator-silent": "the coordinator does not answer a request for committed offsets",
    "bounds-unknown": "a request for the bounds of the tiers fails",
    "tier-grew": "a segment reaches the tier while its partition is read",
    "elected": "a partition gets a new leader",
    "elected-uncleanly": "a partition gets a new leader, whose log is shorter",
    "tier-diverged": "an unclean election loses records that are in the tier",
    "leader-crashed": "a leader crashes in the middle of a copy or a deletion",
    "topic-recreated": "a topic is deleted and created again",
}
"""Name and meaning of each."""


class Occurrences(Counter[str]):
    """Counts by name."""

    def saw(self, name: str) -> None:
        """Counts one. Raises KeyError for a name that is not in the table."""
        if name not in SOMETIMES:
            raise KeyError(name)
        self[name] += 1

    @property
    def missing(self) -> list[str]:
        """The events that have not happened."""
        return [name for name in SOMETIMES if not self[name]]
