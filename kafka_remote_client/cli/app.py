"""The verbs and their options."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from enum import StrEnum
from typing import Annotated

import typer

from kafka_remote_client.cli.demo import Fault, demo_cluster, run_demo
from kafka_remote_client.cli.demo_output import DemoProgress, show_demo
from kafka_remote_client.cli.dump import DumpRequest, dump
from kafka_remote_client.cli.given_settings import parse_settings, read_secret
from kafka_remote_client.cli.ls import found_segments
from kafka_remote_client.cli.output import OutputFormat, remark, show_segments
from kafka_remote_client.cli.plan import plan_options, show_plan
from kafka_remote_client.cli.shim import serve
from kafka_remote_client.cli.tier import open_tier, parse_encryption_keys, parse_topic_id
from kafka_remote_client.cli.verify import VerifyCommand, verify
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError, PeerUnreachableError
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.spark.job_figures import Prices
from kafka_remote_client.spark.job_planner import plan
from kafka_remote_client.verify.verifier import VerifyRequest

__all__ = ["app"]

app = typer.Typer(
    help="Kafka's tiered segments, read straight from the store.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

SETTING_FORMS = "KEY=VALUE|@FILE"

Store = Annotated[
    str, typer.Option("--store", help="URL of the tier: file:///DIR, s3://BUCKET/PREFIX, gs://…, az://…", metavar="URL")
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option("--store-option", help="How to reach the store; may be repeated (docs/stores.md).", metavar=SETTING_FORMS),
]
Layout = Annotated[str, typer.Option("--layout", help="How the tier names its objects.", metavar="NAME")]
KeyPrefix = Annotated[
    str, typer.Option("--key-prefix", help="Put in front of every object's name as it is (aiven).", metavar="PREFIX")
]
EncryptionKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--encryption-key", help="RSA private key, PEM or DER; may be repeated (aiven).", metavar="KEYID=PRIVATE_KEY_FILE"
    ),
]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")]
_LONGEST = 1e9
"""Seconds or milliseconds, which keeps infinity out."""


class Isolation(StrEnum):
    """``--isolation-level``, as consumers spell it."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


@app.command("dump")
def _dump(
    store: Store,
    topic: Annotated[str, typer.Option("--topic", help="Name of the topic.")],
    store_option: StoreOptions = None,
    layout: Layout = "local-tiered-storage",
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    partition: Partition = None,
    start: Annotated[int | None, typer.Option("--start", min=0, help="First offset.")] = None,
    end: Annotated[int | None, typer.Option("--end", min=0, help="Offset to stop before.")] = None,
    isolation_level: Annotated[Isolation, typer.Option("--isolation-level")] = Isolation.READ_COMMITTED,
    topic_id: Annotated[str | None, typer.Option("--topic-id", help="Which of several topics of that name.")] = None,
    allow_offset_gaps: Annotated[
        bool, typer.Option("--allow-offset-gaps", help="For topics that were once compacted.")
    ] = False,
    output: Annotated[OutputFormat, typer.Option("--output", help="json: one object a line.")] = OutputFormat.JSON,
) -> None:
    """Prints the records of a topic as the tier holds them, without a broker."""
    if output is not OutputFormat.JSON:
        raise typer.BadParameter("records are printed as json", param_hint="--output")
    level = IsolationLevel[isolation_level.name]
    request = DumpRequest(topic, partition, start, end, level, allow_offset_gaps)
    options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
    with open_tier(
        store,
        layout,
        options,
        store_options=parse_settings(store_option or [], "--store-option"),
        topic=topic,
        topic_id=parse_topic_id(topic_id),
    ) as (opened, source):
        for line in dump(request, opened, source, remark):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()


@app.command("ls")
def _ls(
    store: Store,
    store_option: StoreOptions = None,
    layout: Layout = "local-tiered-storage",
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this topic.")] = None,
    partition: Partition = None,
    output: Annotated[OutputFormat, typer.Option("--output")] = OutputFormat.TEXT,
) -> None:
    """Lists topics, partitions and segments of the tier."""
    options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
    with open_tier(store, layout, options, store_options=parse_settings(store_option or [], "--store-option"), topic=topic) as (
        opened,
        source,
    ):
        show_segments(found_segments(opened, source, topic, partition), output)


@app.command("plan")
def _plan(
    bootstrap_servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", help="The option kafka.bootstrap.servers.", metavar="HOST:PORT,…")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="The option subscribe.", metavar="TOPIC,…")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", help="Of format('kafka-remote'); may be repeated (docs/spark-options.md).", metavar=SETTING_FORMS
        ),
    ] = None,
    options_file: Annotated[
        str | None, typer.Option("--options-file", help="JSON object of options: the place for secrets.", metavar="FILE")
    ] = None,
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, help="Tasks at once; those of this machine if not given.")
    ] = None,
    latency_ms: Annotated[float, typer.Option("--latency-ms", min=0, max=_LONGEST, help="Milliseconds of one GET.")] = 20.0,
    megabytes_per_second: Annotated[
        float, typer.Option("--megabytes-per-second", min=0.001, help="What one core reads, of 10^6 bytes.")
    ] = 100.0,
    price_per_1000_gets: Annotated[
        float, typer.Option("--price-per-1000-gets", min=0, help="Dollars; S3 Standard, us-east-1.")
    ] = Prices().per_1000_gets,
    price_per_gb: Annotated[
        float, typer.Option("--price-per-gb", min=0, help="Dollars of transfer; free within a region.")
    ] = Prices().per_gb,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare", help="Counters of a job: a file, or what remote.countersDirectory named.", metavar="FILE_OR_DIRECTORY"
        ),
    ] = None,
    output: Annotated[OutputFormat, typer.Option("--output")] = OutputFormat.TEXT,
) -> None:
    """Says what a Spark job will take before it runs: segments, GETs, bytes, splits, dollars, time. Reads no data."""
    named = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
    try:
        found = plan(
            plan_options(option or [], options_file, named),
            cores=cores,
            latency_ms=latency_ms,
            megabytes_per_second=megabytes_per_second,
            prices=Prices(price_per_1000_gets, price_per_gb),
        )
    except PeerUnreachableError as error:
        raise ConfigurationError(str(error)) from error
    show_plan(found, compare, output)


@app.command("shim")
def _shim(
    bootstrap_servers: Annotated[str, typer.Option("--bootstrap-servers", help="The cluster behind.", metavar="HOST:PORT,…")],
    listen: Annotated[str, typer.Option("--listen", help="Where clients connect.", metavar="HOST:PORT")],
    store: Store,
    store_option: StoreOptions = None,
    layout: Layout = "local-tiered-storage",
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    allow_plaintext_data_keys: Annotated[
        bool,
        typer.Option("--allow-plaintext-data-keys", help="Give clients without TLS keys of encrypted segments, too (aiven)."),
    ] = False,
    advertised_host: Annotated[str | None, typer.Option("--advertised-host", help="Host that clients are told.")] = None,
    node_port_base: Annotated[
        int | None, typer.Option("--node-port-base", help="A broker's listener is this plus its node id.")
    ] = None,
    origin_listen: Annotated[
        str, typer.Option("--origin-listen", help="Where segments are served.", metavar="HOST:PORT")
    ] = "127.0.0.1:0",
    origin_public_url: Annotated[
        str | None, typer.Option("--origin-public-url", help="Where clients see that.", metavar="URL")
    ] = None,
    whole_object_urls: Annotated[
        bool, typer.Option("--whole-object-urls", help="Grant URLs that are not bound to a range (Azure has no others).")
    ] = False,
    url_ttl: Annotated[float, typer.Option("--url-ttl", help="Life of a signed URL in seconds, 1 to 900.")] = 120.0,
    metadata_consumer: Annotated[
        list[str] | None,
        typer.Option("--metadata-consumer", help="librdkafka setting of the metadata follower.", metavar=SETTING_FORMS),
    ] = None,
    ssl_certificate: Annotated[
        str | None, typer.Option("--ssl-certificate", help="Clients have to speak TLS; this is what they see.", metavar="PEM")
    ] = None,
    ssl_key: Annotated[str | None, typer.Option("--ssl-key", help="Its key, if not in that file.", metavar="PEM")] = None,
    ssl_key_password_file: Annotated[
        str | None, typer.Option("--ssl-key-password-file", help="Holds the key's password.", metavar="FILE")
    ] = None,
    ssl_client_ca: Annotated[
        str | None, typer.Option("--ssl-client-ca", help="Clients have to show a certificate of this authority.", metavar="PEM")
    ] = None,
    origin_https: Annotated[bool, typer.Option("--origin-https", help="Serve segments over TLS as well.")] = False,
    broker_setting: Annotated[
        list[str] | None,
        typer.Option("--broker-setting", help="security.protocol and ssl.* towards brokers.", metavar=SETTING_FORMS),
    ] = None,
    allow_shared_identity: Annotated[
        bool, typer.Option("--allow-shared-identity", help="Let brokers see a certificate of the shim's.")
    ] = False,
) -> None:
    """Stands in front of a Kafka cluster and tells clients that ask where tiered records lie."""
    config = ShimConfig(
        bootstrap_servers=bootstrap_servers,
        listen=listen,
        advertised_host=advertised_host,
        node_port_base=node_port_base,
        store=store,
        store_options=parse_settings(store_option or [], "--store-option"),
        whole_object_urls=whole_object_urls,
        layout=layout,
        key_prefix=key_prefix,
        encryption_keys=parse_encryption_keys(encryption_key or []),
        allow_plaintext_data_keys=allow_plaintext_data_keys,
        origin_listen=origin_listen,
        origin_public_url=origin_public_url,
        url_ttl=url_ttl,
        metadata_consumer=parse_settings(metadata_consumer or []),
        ssl_certificate=ssl_certificate,
        ssl_key=ssl_key,
        ssl_key_password=read_secret(ssl_key_password_file),
        ssl_client_ca=ssl_client_ca,
        origin_https=origin_https,
        broker_settings=parse_settings(broker_setting or [], "--broker-setting"),
        allow_shared_identity=allow_shared_identity,
    )
    told = _stop_signal()
    try:
        counters = serve(config, remark, told.wait)
    except OSError as error:
        raise ConfigurationError(f"cannot listen: {error.strerror}") from None
    remark(", ".join(f"{name} {count}" for name, count in sorted(counters.items())))


@app.command("demo")
def _demo(
    records: Annotated[int, typer.Option("--records", min=100, help="How many to write and read.")] = 200_000,
    fault: Annotated[Fault | None, typer.Option("--fault", help="What befalls the store half way.")] = None,
) -> None:
    """Shows the whole system on this machine: no broker, Java or Docker needed."""
    clock = SystemClock()
    with (
        tempfile.TemporaryDirectory(prefix="kafka-remote-demo-") as directory,
        demo_cluster(directory, records, clock) as cluster,
        DemoProgress(records) as progress,
    ):
        result = run_demo(cluster, records=records, fault=fault, clock=clock, wrote=progress.wrote, read=progress.read)
    show_demo(result)
    for failure in result.failures:
        remark(f"the demo failed: {failure}")
    if not result.worked:
        raise typer.Exit(1)


@app.command("verify")
def _verify(
    store: Store,
    topics: Annotated[list[str] | None, typer.Argument(help="Names of topics; none = all.", metavar="[TOPIC]...")] = None,
    layout: Layout = "local-tiered-storage",
    store_option: StoreOptions = None,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "--bootstrap-servers",
            help="A broker whose metadata topic is held against the store.",
            metavar="HOST:PORT,…",
        ),
    ] = None,
    metadata_topic: Annotated[str, typer.Option("--metadata-topic", help="Its name.")] = METADATA_TOPIC,
    metadata_consumer: Annotated[
        list[str] | None,
        typer.Option("--metadata-consumer", help="librdkafka setting for reading it.", metavar=SETTING_FORMS),
    ] = None,
    metadata_timeout: Annotated[
        float, typer.Option("--metadata-timeout", min=0, max=_LONGEST, help="Seconds within which it has to be read.")
    ] = 120.0,
    quick: Annotated[bool, typer.Option("--quick", help="Objects, sizes, manifests and indexes only: no record data.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Segments looked at side by side.")] = 4,
    allow_offset_gaps: Annotated[
        bool, typer.Option("--allow-offset-gaps", help="For topics that were once compacted.")
    ] = False,
    grace: Annotated[
        float, typer.Option("--grace", min=0, max=_LONGEST, help="Seconds for which a copy or deletion may be under way.")
    ] = 900.0,
    as_json: Annotated[bool, typer.Option("--json", help="One object for each finding, then a summary.")] = False,
) -> None:
    """Looks for everything that is wrong with a tier. Exit status: 0 sound, 1 findings, 2 could not look."""
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
        as_json=as_json,
    )
    raise typer.Exit(verify(command, remark))


def _stop_signal() -> threading.Event:
    """Set by SIGINT or SIGTERM from now on; an earlier one would end the process without a word."""
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    return told
