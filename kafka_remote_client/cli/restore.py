"""``kafka-remote restore``: rebuilds topics from their tier in the log folders of freshly formatted nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated
from uuid import UUID

import attrs
import typer
from rich.table import Table

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings, utf_8
from kafka_remote_client.cli.offsets import read_metadata
from kafka_remote_client.cli.output import OutputFormat, output_console, show_json, show_text
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import parse_encryption_keys, parse_topic_id
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import AbortedTransaction, TopicIdPartition, TopicPartition, uuid_from_text, uuid_to_text
from kafka_remote_client.registry import check_store_options, load_store
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.remote_log.store_contents import nothing_found
from kafka_remote_client.restore.partition_tier import read_partition
from kafka_remote_client.restore.replica_assignment import ReplicaAssignment, parse_assignment
from kafka_remote_client.restore.restore_plan import Gap, PartitionTier, RestorePlan, RestoreRequest, plan_restore
from kafka_remote_client.restore.restorer import Restored, Restorer
from kafka_remote_client.restore.shell_commands import abort_commands, group_offset_commands
from kafka_remote_client.restore.topic_configs import parse_topic_configs

__all__ = [
    "RestoreCommand",
    "add_verb",
    "parse_counts",
    "parse_gaps",
    "parse_ids",
    "parse_log_starts",
    "read_assignment",
    "read_configs",
    "restore",
]

_NUMBER = r"0|[1-9][0-9]{0,18}"
_PARTITION = rf"(?P<topic>[A-Za-z0-9._-]{{1,249}})-(?P<partition>{_NUMBER})"
_LOG_START = re.compile(rf"{_PARTITION}=(?P<offset>{_NUMBER})", re.ASCII)
_GAP = re.compile(rf"{_PARTITION}=(?P<first>{_NUMBER})-(?P<last>{_NUMBER})", re.ASCII)
_COUNT = re.compile(rf"(?P<topic>[A-Za-z0-9._-]{{1,249}})=(?P<count>{_NUMBER})", re.ASCII)


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("restore")(_restore)


@attrs.frozen
class RestoreCommand:
    """The arguments. No ``targets``: only the plan is shown. No topics = all of the store; settings may be secrets.

    The metadata topic is read if ``metadata_servers`` is given.
    """

    store: str
    request: RestoreRequest
    targets: tuple[Path, ...]
    topics: tuple[str, ...] = ()
    topic_id: UUID | None = None
    without: frozenset[UUID] = frozenset()
    layout: str = ""
    layout_options: LayoutOptions = attrs.field(factory=LayoutOptions)
    store_options: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    bootstrap_servers: str = "localhost:9092"
    metadata_servers: str | None = None
    metadata_topic: str = METADATA_TOPIC
    consumer: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    metadata_timeout: float = options.DEFAULT_METADATA_TIMEOUT
    output: OutputFormat = OutputFormat.TEXT


def restore(command: RestoreCommand, say: Callable[[str], None], clock: Clock | None = None) -> int:
    """Shows the plan, and carries it out if there is a target. Returns the exit status: 1 if the plan is refused.

    Raises ConfigurationError, RestoreError, and what the store raises. ``say`` gets remarks for people.
    """
    layout = layout_named(command.layout, command.layout_options)
    store = load_store(command.store, command.store_options)
    topic = command.topics[0] if len(command.topics) == 1 else None
    with ExitStack() as opened:
        source = opened.enter_context(closing(ListingLocationSource(store, layout, topic=topic, topic_id=command.topic_id)))
        check_store_options(command.store_options, store)
        tips = [tip for name in dict.fromkeys(command.topics or source.topics()) for tip in source.partitions(name)]
        if not tips:
            raise nothing_found(f"found no segments{' of ' if command.topics else ''}{', '.join(command.topics)}", store)
        _check_topics(command, tips)
        listing, metadata = source.listing, None
        if command.metadata_servers is not None:
            reading = read_metadata(
                command.metadata_servers, command.consumer, command.metadata_topic, command.metadata_timeout
            )
            metadata = opened.enter_context(reading)
        tiers = [read_partition(store, layout, listing, tip, command.without, metadata) for tip in tips]
        _check_left_out(command, tiers)
        plan = plan_restore(tiers, command.request, (clock or SystemClock()).time_ms())
        _show(plan, command)
        if not command.targets or plan.refusals:
            return 1 if plan.refusals else 0
        restored = Restorer(store, layout, plan, command.request.configs, say=say).run(*command.targets)
    _show_rest(restored, command)
    return 0


def read_configs(path: str) -> dict[str, dict[str, str]]:
    """The file of ``--configs``. Raises ConfigurationError."""
    where = f"--configs: {path}"
    return parse_topic_configs(_text_of(path, where), as_json=path.endswith(".json"), where=where)


def read_assignment(path: str) -> ReplicaAssignment:
    """The file of ``--assignment``. Raises ConfigurationError."""
    where = f"--assignment: {path}"
    return parse_assignment(_text_of(path, where), where)


def _text_of(path: str, where: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{where} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigurationError(f"{where} is not UTF-8") from None


def parse_log_starts(texts: Sequence[str]) -> dict[TopicPartition, int]:
    """``TOPIC-PARTITION=OFFSET``. Raises ConfigurationError."""
    found = (_matched(_LOG_START, text, "--log-start", "TOPIC-PARTITION=OFFSET") for text in texts)
    return {_partition(match): int(match["offset"]) for match in found}


def parse_gaps(texts: Sequence[str]) -> frozenset[tuple[TopicPartition, Gap]]:
    """``TOPIC-PARTITION=FIRST-LAST``, both inclusive. Raises ConfigurationError."""
    found = (_matched(_GAP, text, "--allow-gap", "TOPIC-PARTITION=FIRST-LAST") for text in texts)
    return frozenset((_partition(match), Gap(int(match["first"]), int(match["last"]))) for match in found)


def parse_counts(texts: Sequence[str]) -> dict[str, int]:
    """``TOPIC=COUNT``. Raises ConfigurationError."""
    found = (_matched(_COUNT, text, "--partitions", "TOPIC=COUNT") for text in texts)
    return {match["topic"]: int(match["count"]) for match in found}


def parse_ids(texts: Sequence[str]) -> frozenset[UUID]:
    """Segment ids in Kafka's text form. Raises ConfigurationError."""
    try:
        return frozenset(map(uuid_from_text, texts))
    except ValueError as error:
        raise ConfigurationError(f"--without-segment: {error}") from None


def _matched(pattern: re.Pattern[str], text: str, option: str, form: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{option}: {text!r} is not {form}")
    return match


def _partition(match: re.Match[str]) -> TopicPartition:
    return TopicPartition(match["topic"], int(match["partition"]))


def _check_topics(command: RestoreCommand, tips: Sequence[TopicIdPartition]) -> None:
    absent = sorted(set(command.topics) - {tip.topic for tip in tips})
    if absent:
        raise ConfigurationError(f"the store has no segments of {', '.join(absent)}")


def _check_left_out(command: RestoreCommand, tiers: Sequence[PartitionTier]) -> None:
    unknown = sorted(uuid_to_text(one) for one in command.without.difference(*(tier.left_out for tier in tiers)))
    if unknown:
        topics = ", ".join(sorted({tier.tip.topic for tier in tiers}))
        what = f"no segment {', '.join(unknown)} of {topics}"
        raise ConfigurationError(f"--without-segment: found {what}; kafka-remote ls shows the segments")


def _show(plan: RestorePlan, command: RestoreCommand) -> None:
    if command.output is OutputFormat.JSON:
        for partition in plan.partitions:
            show_json(partition.as_json())
        show_json(plan.as_json())
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("partition", overflow="fold")
    for heading in ("log start", "end", "segments", "bytes", "gaps", "hanging"):
        table.add_column(heading, justify="right")
    for one in plan.partitions:
        hanging = "?" if one.hanging is None else str(len(one.hanging))
        numbers = (one.log_start, one.end, len(one.segments), one.nbytes, len(one.gaps))
        table.add_row(str(one.name), *map(str, numbers), hanging)
    output_console().print(table)
    for one in plan.partitions:
        _print_list(f"{one.name} lacks", one.missing)
        _print_list(f"{one.name} gap", map(str, one.gaps))
        _print_list(f"{one.name} hanging", (_described(transaction) for transaction in one.hanging or ()))
    _print_list("created empty", map(str, plan.empty))
    _print_list("refused", plan.refusals)


def _described(transaction: AbortedTransaction) -> str:
    return f"the transaction of producer {transaction.producer_id} from offset {transaction.first_offset} on"


def _print_list(what: str, lines: Sequence[str] | Iterator[str]) -> None:
    for line in lines:
        show_text(f"{what}: {line}", subsequent_indent="  ")


def _show_rest(restored: Restored, command: RestoreCommand) -> None:
    aborts = list(abort_commands(restored.hanging, command.bootstrap_servers))
    offsets = list(group_offset_commands(command.bootstrap_servers))
    if command.output is OutputFormat.JSON:
        done = {
            "type": "restored",
            "copied_bytes": restored.copied_bytes,
            "next_producer_id": restored.next_producer_id,
            "abort_commands": aborts,
            "group_offset_commands": offsets,
        }
        show_json(done)
        return
    print(f"restored; new producers get ids from {restored.next_producer_id} on")
    print(f"start the node{'s' if len(command.targets) > 1 else ''}, then run, before consumers start:")
    for line in [*aborts, *offsets]:
        print(f"  {line}")


def _restore(
    store: options.Store,
    topics: options.Topics = None,
    to: Annotated[
        list[Path] | None,
        typer.Option("--to", help="Log folder of a freshly formatted node; repeatable, with --assignment.", metavar="DIR"),
    ] = None,
    assignment: Annotated[
        str | None,
        typer.Option("--assignment", help="Nodes of each partition, as for kafka-reassign-partitions.sh.", metavar="JSON"),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option("--configs", help="Configs of each topic, which the tier does not have.", metavar="TOML|JSON"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and write nothing.")] = False,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    encryption_key: options.EncryptionKeys = None,
    topic_id: options.TopicId = None,
    log_start: Annotated[
        list[str] | None,
        typer.Option("--log-start", help="Where a log starts; repeatable.", metavar="TOPIC-PARTITION=OFFSET"),
    ] = None,
    allow_gap: Annotated[
        list[str] | None,
        typer.Option("--allow-gap", help="Accept lost offsets; repeatable.", metavar="TOPIC-PARTITION=FIRST-LAST"),
    ] = None,
    without_segment: Annotated[
        list[str] | None,
        typer.Option("--without-segment", help="Leave a segment out, as one of several copies; repeatable.", metavar="ID"),
    ] = None,
    live_copies: Annotated[
        bool, typer.Option("--live-copies", help="Of several copies of the same offsets, take those that a broker reads.")
    ] = False,
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partitions", help="Number of partitions, if the last ones are not in the tier.", metavar="TOPIC=COUNT"),
    ] = None,
    bootstrap_servers: Annotated[
        str,
        typer.Option("--bootstrap-servers", help="Address of the restored node, for the commands.", metavar="HOST:PORT"),
    ] = "localhost:9092",
    metadata_servers: Annotated[
        str | None,
        typer.Option(
            "--metadata-servers",
            help="Cluster whose metadata topic says which segments are live.",
            metavar="HOST:PORT,…",
            callback=utf_8,
        ),
    ] = None,
    metadata_topic: options.MetadataTopicName = METADATA_TOPIC,
    consumer: options.ConsumerSettings = None,
    metadata_timeout: options.MetadataTimeout = options.DEFAULT_METADATA_TIMEOUT,
    adopt: Annotated[bool, typer.Option("--adopt", hidden=True)] = False,
    output: options.Output = OutputFormat.TEXT,
) -> None:
    """Rebuilds topics from their tier in the folders of freshly formatted nodes."""
    if adopt:
        why = "a wrong order of steps lets the broker delete the tier (docs/decisions/0016-restore-copies-to-new-nodes.md)"
        raise ConfigurationError(f"--adopt is not supported: {why}; restore to new nodes without it")
    if not to and not dry_run:
        raise typer.BadParameter("is missing; --dry-run shows the plan without it", param_hint="--to")
    command = RestoreCommand(
        store=store,
        request=RestoreRequest(
            configs={} if configs is None else read_configs(configs),
            log_starts=parse_log_starts(log_start or []),
            accepted_gaps=parse_gaps(allow_gap or []),
            live_copies=live_copies,
            partition_counts=parse_counts(partitions or []),
            assignment=None if assignment is None else read_assignment(assignment),
        ),
        targets=() if dry_run else tuple(to or ()),
        topics=tuple(topics or ()),
        topic_id=parse_topic_id(topic_id),
        without=parse_ids(without_segment or []),
        layout=layout,
        layout_options=LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or [])),
        store_options=parse_settings(store_option or [], "--store-option"),
        bootstrap_servers=bootstrap_servers,
        metadata_servers=metadata_servers,
        metadata_topic=metadata_topic,
        consumer=parse_settings(consumer or [], "--consumer"),
        metadata_timeout=metadata_timeout,
        output=output,
    )
    raise typer.Exit(restore(command, remark))
