"""The table of the surface in consumer.md: every public attribute of confluent_kafka's four classes, and what ours has beside.

Walking the installed classes gives the names; ``ENTRIES`` has the text of each, and the test that covers it. A name without an
entry fails tests/consumer/test_surface.py.
"""

from __future__ import annotations

from enum import Enum

import attrs
import confluent_kafka
from confluent_kafka import aio

import kafka_remote_client
from kafka_remote_client.consumer.direct_consumer import DirectConsumer

__all__ = ["ASYNC", "DESERIALIZING", "ENTRIES", "PAIRS", "Entry", "Standing", "entry_of", "names", "table"]


class Standing(Enum):
    """Beside confluent_kafka's: the same to the application, the same and more, refused by both, or ours alone."""

    SAME = "same"
    EXTENDED = "extended"
    REFUSED = "refused"
    OURS = "ours"


@attrs.frozen
class Entry:
    """``test``: file below tests/, two colons, function. ``note``: what is more or different."""

    standing: Standing
    test: str
    note: str = ""


PAIRS: dict[type, type] = {
    confluent_kafka.Consumer: DirectConsumer,
    confluent_kafka.DeserializingConsumer: kafka_remote_client.DeserializingConsumer,
    aio.AIOConsumer: kafka_remote_client.AIOConsumer,
    aio.AsyncDeserializingConsumer: kafka_remote_client.AsyncDeserializingConsumer,
}
"""Upstream's classes and ours, with direct fetch on."""
_ENTERED = {"__init__", "__enter__", "__exit__", "__aenter__", "__aexit__"}
"""Special methods that applications use too."""


def names(cls: type) -> set[str]:
    """The names that an application may use."""
    return {name for name in dir(cls) if not name.startswith("_")} | {name for name in _ENTERED if hasattr(cls, name)}


def _same(test: str) -> Entry:
    return Entry(Standing.SAME, test)


def _more(note: str, test: str) -> Entry:
    return Entry(Standing.EXTENDED, test, note)


_ON_BOTH = "parity/test_calls.py::test_the_remaining_methods_are_equal"
_PLACES, _DIRECT = "parity/test_places.py::", "consumer/test_direct_consumer.py::"
_ARROW = "consumer/test_arrow_batches.py::"
ENTRIES: dict[str, Entry] = {
    "__init__": _more(
        "takes the settings of configs.md too",
        "consumer/test_consumer.py::test_configuration_comes_as_mapping_keywords_or_with_a_logger",
    ),
    "__enter__": _same("parity/test_calls.py::test_leaving_the_context_closes_the_consumer"),
    "__exit__": _same("parity/test_calls.py::test_leaving_the_context_closes_the_consumer"),
    "assign": _more(
        "asks for committed offsets and where the tiers begin, in the background",
        _DIRECT + "test_store_serves_all_below_the_local_log_and_the_broker_the_rest",
    ),
    "assignment": _same(_DIRECT + "test_an_assignment_says_where_partitions_were_assigned"),
    "close": _more(
        "ends what waits in another thread, and stops all of direct fetch",
        "consumer/test_call_gate.py::test_a_call_with_an_end_returns_what_it_has_and_close_commits_that",
    ),
    "cluster_id": _same(_ON_BOTH),
    "commit": _same("parity/test_commits.py::test_all_forms_of_commit_give_the_same_offsets"),
    "committed": _same("parity/test_commits.py::test_committed_offsets_of_unknown_partitions_are_equal"),
    "consume": _more("from both tiers", "parity/test_calls.py::test_consume_keeps_its_contract"),
    "consumer_group_metadata": _same("integration/test_transactions.py::test_consume_transform_produce_is_exactly_once"),
    "get_watermark_offsets": _more(
        "`cached=True` is not stale while a partition is read directly", _PLACES + "test_watermarks_are_equal"
    ),
    "incremental_assign": _more("as `assign`", _PLACES + "test_partitions_are_added_and_removed_alike"),
    "incremental_unassign": _same(_PLACES + "test_partitions_are_added_and_removed_alike"),
    "list_topics": _same(_ON_BOTH),
    "memberid": _same(_ON_BOTH),
    "offsets_for_times": _same(_PLACES + "test_offsets_for_times_in_the_tier_and_past_the_end"),
    "pause": _more("drops what was read ahead", _PLACES + "test_pause_and_resume_give_the_same_records"),
    "poll": _more("from both tiers", "parity/test_calls.py::test_poll_keeps_its_contract"),
    "position": _same(_PLACES + "test_positions_are_equal"),
    "resume": _more("reads again what was dropped", _PLACES + "test_pause_and_resume_give_the_same_records"),
    "seek": _more(
        "asks where the tiers begin, in the background, where that is not known",
        _PLACES + "test_seeks_between_and_within_tiers_are_equal",
    ),
    "set_sasl_credentials": _more(
        "connections that ask for locations follow",
        "consumer/test_consumer.py::test_the_rest_of_the_surface_answers_as_confluent_kafka_does",
    ),
    "store_offsets": _same("parity/test_commits.py::test_store_offsets_stores_the_applications_offsets"),
    "subscribe": _more(
        "`None` is taken for a callback", "consumer/test_rebalance.py::test_a_subscribed_consumer_reads_all_partitions"
    ),
    "unassign": _same(_DIRECT + "test_partitions_come_and_go_one_by_one"),
    "unsubscribe": _more(
        "drops what was read ahead", "consumer/test_rebalance.py::test_what_was_read_ahead_is_dropped_by_unsubscribe"
    ),
    "metrics": Entry(
        Standing.OURS, "consumer/test_consumer.py::test_off_the_metrics_are_there_and_zero", "which tier served, what it cost"
    ),
    "consume_arrow": Entry(
        Standing.OURS,
        _ARROW + "test_transactions_and_codecs_come_as_consume_gives_them",
        "what `consume` gives, as an Arrow table",
    ),
    "tier": Entry(
        Standing.OURS,
        "consumer/test_tiered_consumer.py::test_each_record_is_told_from_where_it_came_when_it_comes_and_later",
        "which tier a record came from",
    ),
    "set_remote_fetch": Entry(
        Standing.OURS,
        "consumer/test_tiered_consumer.py::test_broker_continues_at_the_exact_next_record_after_the_switch_off",
        "direct fetch off and on again at run time",
    ),
}
"""Of Consumer's methods; the other classes' are the same but for those in ``ASYNC`` and ``DESERIALIZING``."""
_AIO = "consumer/test_aio.py::"
DESERIALIZING = {
    "poll": _more(
        "from both tiers", "consumer/test_deserializing.py::test_keys_and_values_of_both_tiers_are_what_upstreams_class_gives"
    ),
    "consume": Entry(
        Standing.REFUSED,
        "consumer/test_deserializing.py::test_what_cannot_be_deserialised_is_raised_as_upstream_raises_it",
        "by upstream's class too",
    ),
    "consume_arrow": Entry(Standing.OURS, _ARROW + "test_a_deserializing_consumer_refuses", "refused, as `consume` is"),
}
ASYNC = {
    "__init__": _more(
        "takes the settings of configs.md too", _AIO + "test_the_constructors_of_upstream_keep_their_arguments_and_refusals"
    ),
    "__aenter__": _same(_AIO + "test_the_same_records_of_both_tiers_come_to_a_coroutine"),
    "__aexit__": _same(_AIO + "test_the_same_records_of_both_tiers_come_to_a_coroutine"),
    "poll": _more("from both tiers", _AIO + "test_the_same_records_of_both_tiers_come_to_a_coroutine"),
    "consume": _more("from both tiers", _AIO + "test_the_same_records_of_both_tiers_come_to_a_coroutine"),
    "consume_arrow": Entry(
        Standing.OURS, _ARROW + "test_a_coroutine_gives_the_same_table", "what `consume` gives, as an Arrow table of bytes"
    ),
}


def entry_of(cls: type, name: str) -> Entry:
    """Returns the entry of an attribute of one of upstream's classes, or of ours. Raises KeyError if there is none."""
    special = {
        aio.AIOConsumer: ASYNC,
        aio.AsyncDeserializingConsumer: ASYNC,
        confluent_kafka.DeserializingConsumer: DESERIALIZING,
    }
    return special.get(cls, {}).get(name) or ENTRIES[name]


def table() -> str:
    """One row for each name, one column for each class."""
    lines = [
        "| | " + " | ".join(f"`{cls.__name__}`" for cls in PAIRS) + " | what is more | shown by |",
        "|---|" + "---|" * (len(PAIRS) + 2),
    ]
    everything = sorted(set().union(*(names(cls) | names(ours) for cls, ours in PAIRS.items())))
    for name in everything:
        here = {cls: entry_of(cls, name) for cls, ours in PAIRS.items() if name in names(cls) | names(ours)}
        notes = list(dict.fromkeys(one.note for one in here.values() if one.note))
        tests = list(dict.fromkeys(f"`{one.test.partition('::')[2]}`" for one in here.values()))
        cells = [here[cls].standing.value if cls in here else "" for cls in PAIRS]
        lines.append(f"| `{name}` | " + " | ".join([*cells, "; ".join(notes), ", ".join(tests)]) + " |")
    return "\n".join(lines) + "\n"
