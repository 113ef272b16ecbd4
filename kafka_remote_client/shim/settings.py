"""The table of the shim's settings: each declared once, with its flag, default, unit, bounds and cost.

:class:`~kafka_remote_client.shim.config.ShimConfig` takes defaults and bounds from here, ``kafka-remote shim`` its flags and
their help, docs/shim-settings.md its rows. The command also reads them from a
TOML file and from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.settings import Setting, default_of

__all__ = ["RELOADED", "SHIM_SETTINGS", "ShimSetting", "shim_default", "shim_setting"]

_ADDRESS = "HOST:PORT"
_ADDRESSES = "HOST:PORT,…"
_GIVEN = "KEY=VALUE|@FILE"
_ANY_PORT = "127.0.0.1:0"


@attrs.frozen
class ShimSetting(Setting):
    """A setting of the shim: ``name`` is that of its field in ShimConfig.

    ``flag``: its option on the command line. A setting of type dict is an option that may be repeated.
    ``by_pattern``: its keys are PATTERN.FIELD (:mod:`kafka_remote_client.shim.pattern_tables`).
    ``required``: the command has no default for it, whatever ShimConfig has. ``secret``: its option takes a file.
    """

    flag: str = ""
    metavar: str | None = None
    required: bool = False
    secret: bool = False
    by_pattern: bool = False


def _setting(
    name: str,
    kind: type,
    default: object,
    doc: str,
    *,
    unit: str = "",
    bounds: tuple[float, float] | None = None,
    flag: str = "",
    metavar: str | None = None,
    required: bool = False,
    secret: bool = False,
    choices: tuple[str, ...] = (),
    by_pattern: bool = False,
) -> ShimSetting:
    """``flag``: "" = the name with hyphens."""
    low, high = bounds or (None, None)
    given = flag or f"--{name.replace('_', '-')}"
    return ShimSetting(
        name,
        kind,
        default,
        unit,
        doc,
        low,
        high,
        flag=given,
        metavar=metavar,
        required=required,
        secret=secret,
        choices=choices,
        by_pattern=by_pattern,
    )


_SETTINGS: tuple[ShimSetting, ...] = (
    _setting("bootstrap_servers", str, None, "Bootstrap servers of the Kafka cluster.", metavar=_ADDRESSES, required=True),
    _setting(
        "listen",
        str,
        _ANY_PORT,
        "Bootstrap address that clients connect to. Port 0 takes a free one.",
        metavar=_ADDRESS,
        required=True,
    ),
    _setting("advertised_host", str, None, "Host name that clients get in place of the listen host."),
    _setting(
        "node_port_base",
        int,
        None,
        "Port of a broker's listener, minus its node id. Not set: the bootstrap port plus one, or free ports if that port is "
        "0.",
        bounds=(1, 65_535),
    ),
    _setting(
        "node_ids",
        tuple,
        (),
        "Node ids of brokers that get a listener at start, so that clients with cached addresses can connect after a restart. "
        "The shim learns other brokers from answers that it forwards.",
        metavar="ID,…",
    ),
    _setting(
        "store",
        str,
        None,
        "URL of the tier: file:///DIR, s3://BUCKET/PREFIX, gs://…, az://CONTAINER. Not set: the shim grants nothing.",
        metavar="URL",
        required=True,
    ),
    _setting(
        "store_options",
        dict,
        {},
        "Setting of the store (docs/stores.md).",
        flag="--store-option",
        metavar=_GIVEN,
    ),
    _setting(
        "whole_object_urls",
        bool,
        False,
        "Grant URLs that are not bound to a range (Azure has no others). A client that may read a part of a segment can then "
        "read the whole segment.",
    ),
    _setting(
        "layout",
        str,
        default_of("remote.storage.store.layout"),
        "Layout of the tier's objects.",
        metavar="NAME",
    ),
    _setting(
        "key_prefix",
        str,
        default_of("remote.storage.store.key.prefix"),
        "Prefix of all object names: key.prefix of the brokers' plugin (aiven).",
        metavar="PREFIX",
    ),
    _setting(
        "encryption_keys",
        dict,
        {},
        "RSA private keys of encrypted segments, files in PEM or DER by key id (aiven).",
        flag="--encryption-key",
        metavar="KEYID=PRIVATE_KEY_FILE",
    ),
    _setting(
        "allow_plaintext_data_keys",
        bool,
        False,
        "Give the keys of encrypted segments to clients without TLS too (aiven). Off: the broker serves such segments to them.",
    ),
    _setting(
        "origin_listen",
        str,
        _ANY_PORT,
        "Address of the object origin, which serves the segments of a file: store.",
        metavar=_ADDRESS,
    ),
    _setting(
        "test_origin",
        bool,
        False,
        "Let the object origin listen on other addresses than those of this machine (loopback). It is meant for tests: a "
        "thread for each connection, no limits for each client.",
    ),
    _setting("origin_public_url", str, None, "Public URL of the object origin. Not set: its address.", metavar="URL"),
    _setting(
        "url_ttl",
        float,
        120.0,
        "Lifetime of a signed URL. Longer suits slower readers; shorter ends the use of leaked URLs and of revoked rights "
        "sooner.",
        unit="s",
        bounds=(1, 900),
    ),
    _setting(
        "signing_key",
        bytes,
        None,
        "Key that shims share to serve each other's URLs, 16 bytes or more. Not set: a random key at start. The flag takes a "
        "file that holds it.",
        flag="--signing-key-file",
        metavar="FILE",
        secret=True,
    ),
    _setting(
        "range_bytes",
        int,
        default_of("fetch.remote.range.bytes"),
        "Maximum size of one signed range. A client's ranges are an eighth of the window that it asks for.",
        unit="bytes",
        bounds=(64 << 10, 256 << 20),
    ),
    _setting(
        "max_grant_bytes",
        int,
        256 << 20,
        "Maximum size of all ranges of one grant. Higher needs fewer location requests.",
        unit="bytes",
        bounds=(64 << 10, 1 << 30),
    ),
    _setting(
        "topic_policies",
        dict,
        {},
        "Grants of topics, by patterns of topic names; the first pattern that matches applies. Fields: grant (never, "
        "range, whole-object), url_ttl, max_grant_bytes. The shim's settings apply to fields that are not given.",
        flag="--topic-policy",
        metavar="PATTERN.FIELD=VALUE",
        by_pattern=True,
    ),
    _setting(
        "client_limits",
        dict,
        {},
        "Limits on grants, by patterns of client names: the subject of the certificate, else client.id@address. "
        "Fields: bytes_per_second, grants_per_second. Above a limit the broker serves the records, within its quotas.",
        flag="--client-limit",
        metavar="PATTERN.FIELD=VALUE",
        by_pattern=True,
    ),
    _setting(
        "index_cache_bytes",
        int,
        default_of("fetch.remote.index.cache.bytes"),
        "Memory for indexes, checkpoints and snapshots of segments. Higher repeats fewer reads of the store if clients read "
        "many segments in turn.",
        unit="bytes",
        bounds=(1 << 20, 1 << 40),
    ),
    _setting(
        "lookup_concurrency",
        int,
        default_of("fetch.remote.lookup.concurrency"),
        "Maximum number of look-ups that read the store at the same time; more wait. A look-up mostly waits for the store. "
        "Each takes a thread, which starts when it is first needed.",
        bounds=(1, 1_000),
    ),
    _setting(
        "lookup_timeout",
        float,
        10.0,
        "Time for one look-up in the tier, including its wait for others. After it the broker serves the records. Keep it "
        "below "
        "the request timeout of the clients.",
        unit="s",
        bounds=(0.1, 600),
    ),
    _setting("metadata_topic", str, METADATA_TOPIC, "Name of the metadata topic.", metavar="TOPIC"),
    _setting(
        "metadata_consumer",
        dict,
        {},
        "librdkafka setting of the consumer that follows the metadata topic. Its principal is the shim's own and needs to read "
        "only that topic. Added to the broker settings.",
        flag="--metadata-consumer",
        metavar=_GIVEN,
    ),
    _setting(
        "metadata_snapshot_dir",
        str,
        None,
        "Folder for a snapshot of the metadata topic, which a start continues from. Each process needs a folder of its own, "
        "which only its user can write to. Not set: each start reads the whole topic.",
        metavar="DIR",
    ),
    _setting(
        "metadata_snapshot_interval",
        float,
        300.0,
        "Minimum time between two snapshots. Shorter takes more CPU time and disk writes; a start then has fewer records to "
        "read.",
        unit="s",
        bounds=(1, 86_400),
    ),
    _setting("ssl_certificate", str, None, "Certificate of the listeners, which then accept TLS only.", metavar="PEM"),
    _setting("ssl_key", str, None, "Private key of that certificate, if not in the same file.", metavar="PEM"),
    _setting(
        "ssl_key_password",
        str,
        None,
        "Password of that key. The flag takes a file that holds it.",
        flag="--ssl-key-password-file",
        metavar="FILE",
        secret=True,
    ),
    _setting(
        "ssl_client_ca",
        str,
        None,
        "CA of the client certificates. Clients must then present one. Not set: they need none.",
        metavar="PEM",
    ),
    _setting("origin_https", bool, False, "Serve segments over TLS too."),
    _setting(
        "broker_settings",
        dict,
        {},
        "security.protocol and ssl.* of all connections to brokers, with librdkafka's names.",
        flag="--broker-setting",
        metavar=_GIVEN,
    ),
    _setting(
        "allow_shared_identity",
        bool,
        False,
        "Present the shim's certificate to brokers for every client: brokers then see one identity for all of them.",
    ),
    _setting(
        "allow_unverified_brokers",
        bool,
        False,
        "Accept enable.ssl.certificate.verification=false: any host can then impersonate a broker and read passwords that pass "
        "through. The counter broker_connections_unverified shows its use.",
    ),
    _setting(
        "management_listen",
        str,
        None,
        "Address of the management listener: /livez, /readyz, /tierz and /metrics, without TLS or credentials. Not set: none.",
        metavar=_ADDRESS,
    ),
    _setting(
        "log_format",
        str,
        "text",
        "Format of log lines, including the audit log of grants: text or json.",
        choices=("text", "json"),
    ),
    _setting("max_connections", int, 10_000, "Maximum number of client connections.", bounds=(1, 1_000_000)),
    _setting(
        "max_connections_per_ip", int, 2_000, "Maximum number of client connections from one address.", bounds=(1, 1_000_000)
    ),
    _setting(
        "max_request_rate_per_ip",
        float,
        None,
        "Requests per second of all clients of one address; more wait. It also limits what these clients send to brokers, and "
        "slows many clients behind one address. Not set: no limit but max_loop_share_per_ip.",
        bounds=(1, 1_000_000),
    ),
    _setting(
        "max_loop_share_per_ip",
        float,
        1.0,
        "Largest share of the event loop's time that admitted clients of one address get while other clients use the loop; "
        "requests above it wait. A lower one keeps waits short while an address floods the shim. Leave it at 1 if most clients "
        "come from one address, such as that of a load balancer.",
        bounds=(0.01, 1),
    ),
    _setting(
        "max_unadmitted_connections",
        int,
        1_000,
        "Maximum number of clients that no broker serves yet. Higher lets more clients reconnect at once after a restart.",
        bounds=(1, 1_000_000),
    ),
    _setting(
        "max_buffered_bytes",
        int,
        512 << 20,
        "Memory for parts of requests and answers, and for data that clients and brokers have not read. When it is used up, "
        "the shim closes connections until a sixteenth is free: first those that no broker serves, then those that hold most "
        "for longest.",
        unit="bytes",
        bounds=(1 << 20, 1 << 40),
    ),
    _setting(
        "max_request_bytes",
        int,
        100 << 20,
        "Maximum size of one request. The shim checks it before it allocates memory.",
        unit="bytes",
        bounds=(1024, (1 << 31) - 1),
    ),
    _setting(
        "max_in_flight",
        int,
        1_000,
        "Maximum number of unanswered requests of one client; more wait. Higher needs more memory for a client that does not "
        "read.",
        bounds=(1, 100_000),
    ),
    _setting("connect_timeout", float, 10.0, "Time to connect to one bootstrap server or broker.", unit="s", bounds=(0.1, 600)),
    _setting("handshake_timeout", float, 5.0, "Time for a client's TLS handshake.", unit="s", bounds=(0.1, 600)),
    _setting(
        "admission_timeout",
        float,
        10.0,
        "Time from a client's connection until a broker serves it: TLS, SASL and the first answer.",
        unit="s",
        bounds=(0.1, 600),
    ),
    _setting(
        "write_timeout",
        float,
        60.0,
        "Time for a client or broker to read what was written to it. Longer keeps clients that stop reading for a while.",
        unit="s",
        bounds=(0.1, 3_600),
    ),
    _setting(
        "drain_timeout",
        float,
        30.0,
        "Time for requests in progress after SIGTERM. The shim then closes the remaining connections.",
        unit="s",
        bounds=(0, 3_600),
    ),
    _setting(
        "idle_timeout",
        float,
        600.0,
        "Time without a whole request or answer after which the shim disconnects a client.",
        unit="s",
        bounds=(1, 86_400),
    ),
)

SHIM_SETTINGS: Mapping[str, ShimSetting] = {setting.name: setting for setting in _SETTINGS}
"""By the name of the field in ShimConfig, in its order."""


RELOADED = frozenset(
    {
        "ssl_certificate",
        "ssl_key",
        "ssl_key_password",
        "ssl_client_ca",
        "signing_key",
        "topic_policies",
        "client_limits",
        "max_connections",
        "max_connections_per_ip",
        "max_request_rate_per_ip",
        "max_loop_share_per_ip",
        "max_unadmitted_connections",
        "max_buffered_bytes",
        "max_request_bytes",
        "max_in_flight",
        "connect_timeout",
        "handshake_timeout",
        "admission_timeout",
        "write_timeout",
        "drain_timeout",
        "idle_timeout",
    }
)
"""Names of settings that a running shim reloads."""


def shim_setting(name: str) -> ShimSetting:
    """The declaration of a field of ShimConfig. Raises KeyError."""
    return SHIM_SETTINGS[name]


def shim_default(name: str) -> Any:
    """Its default, for code that is used without a ShimConfig. Raises KeyError."""
    return SHIM_SETTINGS[name].default
