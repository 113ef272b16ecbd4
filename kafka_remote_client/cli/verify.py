"""``kafka-remote verify``: checks a whole tier and lists its faults. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Annotated

import attrs
import typer
from rich.table import Table

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings, utf_8
from kafka_remote_client.cli.old_spellings import output_of
from kafka_remote_client.cli.output import OutputFormat, output_console, show_facts, show_json, show_text
from kafka_remote_client.cli.progress import bytes_bar
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import parse_encryption_keys
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.location import cleanup_policies
from kafka_remote_client.location.bootstrap import connection_settings, with_servers
from kafka_remote_client.model import TopicIdPartition, uuid_to_text
from kafka_remote_client.registry import check_store_options, load_store
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.remote_log.store_contents import nothing_found
from kafka_remote_client.settings import default_of
from kafka_remote_client.verify.finding import Finding, FindingKind, Unchecked
from kafka_remote_client.verify.known_metadata import MetadataTopicReader
from kafka_remote_client.verify.layout_inspectors import inspector_of
from kafka_remote_client.verify.seen_store import SeenStore
from kafka_remote_client.verify.stored_segment import LayoutInspector
from kafka_remote_client.verify.verifier import NothingToVerifyError, Summary, TierVerifier, VerifyRequest

__all__ = ["COULD_NOT_LOOK", "VerifyCommand", "add_verb", "verify"]

COULD_NOT_LOOK = 2
"""The exit status if nothing could be checked, or if not everything could and there are no findings."""


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("verify")(_verify)


@attrs.frozen
class VerifyCommand:
    """The arguments. The metadata topic is read if ``bootstrap_servers`` is given; settings may be secrets."""

    store: str
    request: VerifyRequest
    layout: str = default_of("remote.storage.store.layout")
    layout_options: LayoutOptions = attrs.field(factory=LayoutOptions)
    store_options: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    bootstrap_servers: str | None = None
    metadata_topic: str = METADATA_TOPIC
    metadata_consumer: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    metadata_timeout: float = options.DEFAULT_METADATA_TIMEOUT
    output: OutputFormat = OutputFormat.TEXT


def verify(command: VerifyCommand, say: Callable[[str], None]) -> int:
    """Prints findings and a summary. Returns the exit status. ``say`` gets remarks for people."""
    try:
        return _checked(command, say)
    except DirectFetchError as error:
        say(f"verify failed: {error}")
        return COULD_NOT_LOOK


def _checked(command: VerifyCommand, say: Callable[[str], None]) -> int:
    inspector = inspector_of(layout_named(command.layout, command.layout_options))
    with closing(load_store(command.store, command.store_options)) as store, bytes_bar("verify") as (expect, advance):
        check_store_options(command.store_options, store)
        seen = SeenStore(store, _prefixes(inspector, command.request.topics), advance)
        with _opened(command) as known:
            try:
                verifier = TierVerifier(seen, inspector, command.request, known, compacted=_compacted(command))
            except NothingToVerifyError as error:
                raise nothing_found(str(error), store) from error
            planned = verifier.summary
            say(f"{planned.segments} segments, about {planned.bytes_estimated} bytes to read")
            expect(planned.bytes_estimated)
            found = verifier.run()
            if command.output is OutputFormat.JSON:
                _print_json(found)
            else:
                _print_tables(list(found), verifier.summary)
    if command.output is OutputFormat.JSON:
        show_json(verifier.summary.as_json())
    return verifier.summary.exit_status


def _prefixes(inspector: LayoutInspector, topics: tuple[str, ...]) -> list[str]:
    """Returns the prefixes to list: everything, or the directories of the topics, without duplicates."""
    wanted = sorted({inspector.layout.prefix_of(topic) for topic in topics}) or [inspector.prefix]
    return [one for one in wanted if not any(one != other and one.startswith(other) for other in wanted)]


@contextmanager
def _opened(command: VerifyCommand) -> Iterator[MetadataTopicReader | None]:
    """Returns the metadata topic, read to its end, and follows it from then on."""
    if command.bootstrap_servers is None:
        yield None
        return
    config = {"bootstrap.servers": command.bootstrap_servers, **command.metadata_consumer}
    with closing(MetadataTopicReader(config, command.metadata_topic)) as topic:
        topic.read(command.metadata_timeout)
        yield topic


def _compacted(command: VerifyCommand) -> Callable[[TopicIdPartition], bool]:
    """Asks the brokers, if any are given, whether a topic is compacted."""
    if command.bootstrap_servers is None:
        return lambda _: False
    clock = SystemClock()
    settings = with_servers(connection_settings(command.metadata_consumer), command.bootstrap_servers)
    policies = cleanup_policies.CleanupPolicies(settings, clock)
    return lambda partition: policies.compacted(partition, Deadline(clock, command.metadata_timeout))


def _print_json(found: Iterator[Finding | Unchecked]) -> None:
    for item in found:
        show_json(item.as_json())


def _print_tables(found: list[Finding | Unchecked], summary: Summary) -> None:
    findings = [item for item in found if isinstance(item, Finding)]
    for kind in FindingKind:
        if of_kind := [finding for finding in findings if finding.kind is kind]:
            show_text(f"{kind.label} ({kind.severity.value}): {kind.meaning}")
            for finding in of_kind:
                print()
                show_facts(_facts(finding), indent=2)
            print()
    for item in found:
        if isinstance(item, Unchecked):
            show_text(f"not checked: {item.what}: {item.reason}")
    if findings:
        output_console().print(_totals(summary))
        print()
    verdict = summary.as_json()["verdict"]
    show_text(
        f"{verdict}: {summary.topics} topics, {summary.partitions} partitions, {summary.segments} segments"
        f" ({summary.segments_checked} checked, {summary.segments_busy} being copied or deleted),"
        f" {summary.bytes_stored} bytes stored, {summary.bytes_read} read; {summary.findings.total()} findings,"
        f" {summary.unchecked} not checked"
    )


def _facts(finding: Finding) -> dict[str, object]:
    """What is known of a finding, by name."""
    tip, identity = finding.topic_id_partition, finding.segment_id
    facts = {
        "what": finding.message,
        "partition": None if tip is None else f"{tip.topic}-{tip.partition}",
        "segment": None if identity is None else uuid_to_text(identity.id),
        "object": finding.object_key,
        "start": finding.start_offset,
        "offset": finding.offset,
        "position": finding.position,
        "bytes": finding.bytes,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def _totals(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("kind", no_wrap=True)
    table.add_column("severity", no_wrap=True)
    table.add_column("findings", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    for kind in FindingKind:
        if summary.findings[kind]:
            table.add_row(kind.label, kind.severity.value, str(summary.findings[kind]), str(summary.finding_bytes[kind]))
    return table


def _verify(
    store: options.Store,
    topics: options.Topics = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    store_option: options.StoreOptions = None,
    key_prefix: options.KeyPrefix = "",
    encryption_key: options.EncryptionKeys = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "--bootstrap-servers",
            help="Bootstrap servers of the cluster whose metadata topic is compared with the store.",
            metavar="HOST:PORT,…",
            callback=utf_8,
        ),
    ] = None,
    metadata_topic: options.MetadataTopicName = METADATA_TOPIC,
    metadata_consumer: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata-consumer",
            help="librdkafka setting for reading the metadata topic; repeatable.",
            metavar=options.SETTING_FORMS,
        ),
    ] = None,
    metadata_timeout: options.MetadataTimeout = options.DEFAULT_METADATA_TIMEOUT,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check objects, sizes, manifests and indexes, but no record data.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Number of segments to check in parallel.")] = 4,
    allow_offset_gaps: Annotated[
        bool, typer.Option("--allow-offset-gaps", help="Accept offset gaps, for topics that were compacted before.")
    ] = False,
    grace: options.Grace = options.DEFAULT_GRACE,
    output: options.Output = OutputFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Checks a tier for damage. Exit status: 0 sound, 1 findings, 2 failed to check."""
    command = VerifyCommand(
        store=store,
        store_options=parse_settings(store_option or [], "--store-option"),
        layout=layout,
        layout_options=LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or [])),
        request=VerifyRequest(tuple(topics or ()), quick, jobs, allow_offset_gaps, int(grace * 1000)),
        bootstrap_servers=bootstrap_server,
        metadata_topic=metadata_topic,
        metadata_consumer=parse_settings(metadata_consumer or [], "--metadata-consumer"),
        metadata_timeout=metadata_timeout,
        output=output_of(output, as_json=as_json, say=remark),
    )
    raise typer.Exit(verify(command, remark))
