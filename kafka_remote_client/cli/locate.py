"""``kafka-remote locate``: which tier has an offset, and where a reader gets its bytes.

A reader of the store asks the same question of the same location source, with a window of one batch. ``tier`` of the answer:

====== ==============================================================================
remote a segment is granted; its bytes can be read from the store
broker the log has the offset, but no location is granted; ``reason`` says why
none   the log has no such offset (yet)
====== ==============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Annotated, Any

import attrs
import typer
from typer.core import TyperCommand

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import check_consumer_settings, parse_settings, utf_8
from kafka_remote_client.cli.offsets import log_offset_at, parse_brokers_time, parse_time, tiered_offset_at
from kafka_remote_client.cli.output import OutputFormat, show_facts, show_json
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys
from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.config import split_config
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.location_sources import build_source, configured_store, reads_the_store
from kafka_remote_client.fetch.storage_formats import installed_formats, readable_formats
from kafka_remote_client.location.leaders import open_leaders
from kafka_remote_client.location.sasl_settings import authenticator
from kafka_remote_client.location.source import LocationSource, locate_one
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel, PartitionOffsets, SegmentLocation, uuid_to_text
from kafka_remote_client.protocol.tls import context_of_protocol
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.remote_log.store_contents import naming_options

__all__ = ["LocatedOffset", "add_verb", "locate", "open_source", "show_located"]

_ONE_BATCH = 1
_REASONS: Mapping[str, str] = {
    "aborted-unknown": "the list of aborted transactions is not complete",
    "lineage": "the segment is not on the leader's lineage",
    "metadata-not-ready": "the metadata topic is still being read",
    "listing-not-ready": "the store is still being listed",
    "not-granted": "the shim grants no location: the offset is not tiered, or its topic may not be read directly",
    "undecided": "a transaction at or before the offset has no commit or abort marker in the tier",
    "unknown-partition": "the store has no segment of this partition",
}
_MOST_DIGITS = 4_000
"""Python converts no number with more than 4,300."""
_NEGATIVE = re.compile(r"-\d+")
_USAGE_ERROR: Any = typer.BadParameter.__base__
"""Typer does not export it."""


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("locate", cls=_LocateCommand)(_locate)


@attrs.frozen
class LocatedOffset:
    """The answer. Offsets are inclusive, positions end exclusive; ``None`` where the tier is not "remote" or nothing is known.

    ``segment_bytes`` is the original size. ``local`` = the brokers have the offset on disk, too. ``aborted_transactions``
    are those of the batch, as producer id and first offset.
    """

    topic: str
    partition: int
    offset: int
    tier: str
    reason: str | None = None
    explanation: str | None = None
    local: bool | None = None
    segment_id: str | None = None
    segment_start_offset: int | None = None
    segment_end_offset: int | None = None
    segment_bytes: int | None = None
    start_position: int | None = None
    end_position: int | None = None
    next_offset: int | None = None
    aborted_transactions: tuple[tuple[int, int], ...] | None = None


@contextmanager
def open_source(settings: Mapping[str, object], clock: Clock) -> Iterator[LocationSource]:
    """The location source of a consumer's configuration. Raises ConfigurationError."""
    remote, inner = split_config(settings)
    source = build_source(
        remote,
        inner,
        clock,
        configured_store(remote) if reads_the_store(remote) else None,
        metrics=FetchMetrics(clock),
        formats=readable_formats(installed_formats()),
        ssl_context=context_of_protocol(inner),
        sasl=authenticator(inner, clock),
    )
    with closing(source):
        yield source


def locate(source: LocationSource, question: LocationQuestion, clock: Clock, seconds: float) -> LocatedOffset:
    """``seconds`` bounds each of the two questions. Raises LocationError, RemoteLogError and RemoteStorageError kinds."""
    offsets = source.offsets(question.topic, question.partition, Deadline(clock, seconds))
    asked = attrs.evolve(question, max_bytes=_ONE_BATCH, formats=readable_formats(installed_formats()))
    answer = locate_one(source, asked, Deadline(clock, seconds))
    local = None if offsets.earliest_local == UNKNOWN_OFFSET else offsets.earliest_local <= question.offset
    place = (question.topic, question.partition, question.offset)
    if isinstance(answer, SegmentLocation):
        return _remote(place, answer, local)
    if _outside(question.offset, offsets):
        return LocatedOffset(*place, "none", "out-of-range", _extent(offsets))
    explanation = _REASONS.get(answer.reason, answer.reason) if answer.error is None else str(answer.error)
    return LocatedOffset(*place, "broker" if offsets.high_watermark >= 0 else "none", answer.reason, explanation, local)


def _remote(place: tuple[str, int, int], found: SegmentLocation, local: bool | None) -> LocatedOffset:
    segment = found.metadata
    aborted = found.aborted_transactions
    return LocatedOffset(
        *place,
        "remote",
        local=local,
        segment_id=uuid_to_text(segment.remote_log_segment_id.id),
        segment_start_offset=segment.start_offset,
        segment_end_offset=segment.end_offset,
        segment_bytes=segment.segment_size_in_bytes,
        start_position=found.span.start,
        end_position=found.span.end,
        next_offset=found.next_offset,
        aborted_transactions=None if aborted is None else tuple((one.producer_id, one.first_offset) for one in aborted),
    )


def _outside(offset: int, offsets: PartitionOffsets) -> bool:
    known = UNKNOWN_OFFSET not in {offsets.log_start, offsets.high_watermark}
    return known and not offsets.log_start <= offset < offsets.high_watermark


def _extent(offsets: PartitionOffsets) -> str:
    if offsets.log_start == offsets.high_watermark:
        return "the log is empty"
    return f"the log holds offsets {offsets.log_start} to {offsets.high_watermark - 1}"


def show_located(found: LocatedOffset, output: OutputFormat) -> None:
    """Prints one JSON object, or a table of facts."""
    if output is OutputFormat.JSON:
        show_json(attrs.asdict(found))
        return
    show_facts(_facts(found))


def _facts(found: LocatedOffset) -> dict[str, Any]:
    facts: dict[str, Any] = {"offset": f"{found.topic}-{found.partition} at {found.offset}", "tier": found.tier}
    if found.reason is not None:
        facts["reason"] = f"{found.reason}: {found.explanation}"
    else:
        facts["segment"] = found.segment_id
        facts["its offsets"] = f"{found.segment_start_offset} to {found.segment_end_offset}"
        facts["bytes"] = f"{found.start_position} to {found.end_position} of {found.segment_bytes}"
        facts["next offset"] = found.next_offset
        aborted = ", ".join(f"producer {producer} from {first}" for producer, first in found.aborted_transactions or ())
        facts["aborted"] = "unknown" if found.aborted_transactions is None else aborted or "none"
    if found.local is not None:
        facts["local copy"] = "yes" if found.local else "no"
    return facts


class _LocateCommand(TyperCommand):
    """A negative number looks like an option. The error says what it is instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except _USAGE_ERROR as error:
            option = getattr(error, "option_name", None)
            number = next((one for one in given if option and one.startswith(option) and _NEGATIVE.fullmatch(one)), None)
            if number is None:
                raise
            text = f"{number} is negative; PARTITION and OFFSET start at 0; kafka-remote offsets shows the ends of a log"
            raise typer.BadParameter(text, ctx=ctx) from None


def _locate(
    topic: Annotated[str, typer.Argument(help="Topic.", metavar="TOPIC", callback=utf_8)],
    partition: Annotated[int, typer.Argument(min=0, help="Partition.", metavar="PARTITION")],
    place: Annotated[str, typer.Argument(help="Offset, or a time: ISO 8601, or @MILLISECONDS.", metavar="OFFSET|TIME")],
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            help="The shim, or the cluster for other location sources.",
            metavar="HOST:PORT,…",
            callback=utf_8,
        ),
    ] = None,
    consumer: options.ConsumerSettings = None,
    store: Annotated[
        str | None, typer.Option("--store", help="URL of the tier, to look there without a broker.", metavar="URL")
    ] = None,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    encryption_key: options.EncryptionKeys = None,
    isolation_level: Annotated[options.Isolation, typer.Option("--isolation-level")] = options.Isolation.READ_COMMITTED,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
    output: options.Output = OutputFormat.TEXT,
) -> None:
    """Says which tier has an offset: segment, bytes, aborted transactions, or the reason."""
    if (store is None) == (bootstrap_servers is None):
        raise typer.BadParameter("give either --bootstrap-servers or --store", param_hint="--store")
    clock, is_offset = SystemClock(), place.isascii() and place.isdecimal()
    parse = parse_time if bootstrap_servers is None else parse_brokers_time
    if is_offset and len(place) > _MOST_DIGITS:
        raise ConfigurationError(f"OFFSET has {len(place)} digits; the highest offset is {MAX_OFFSET}")
    time_ms = 0 if is_offset else parse(place, "OFFSET|TIME")
    level = IsolationLevel[isolation_level.name]

    def show(source: LocationSource, offset: int) -> None:
        question = LocationQuestion(topic=topic, partition=partition, offset=offset, isolation_level=level)
        show_located(locate(source, question, clock, timeout), output)

    if store is not None:
        layout_options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
        given = parse_settings(store_option or [], "--store-option")
        opened = open_listing(store, layout, layout_options, store_options=given, topic=topic)
        with naming_options(), opened as (_, listing):
            show(listing, int(place) if is_offset else tiered_offset_at(listing, topic, partition, time_ms, place))
        return
    assert bootstrap_servers is not None
    settings = {"bootstrap.servers": bootstrap_servers, **parse_settings(consumer or [], "--consumer")}
    inner = split_config(settings)[1]
    check_consumer_settings(inner)
    with open_source(settings, clock) as source:
        if is_offset:
            show(source, int(place))
            return
        with closing(open_leaders(inner, clock, min(timeout, options.DEFAULT_TIMEOUT))) as leaders:
            show(source, log_offset_at(leaders, topic, partition, time_ms, place, clock, timeout))
