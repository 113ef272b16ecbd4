"""The text and the exit status that a user of the command line gets for each typical mistake.

The table is meant to be read. Texts in braces are places of the environment in which the mistakes are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import pytest

from kafka_remote_client.cli.main import run
from tests.support.mistakes import World, hide_packages, warnings, world

pytestmark = pytest.mark.embedded


@attrs.frozen
class Row:
    """``arguments``: separated by blanks. ``text``: on stderr, after ``kafka-remote:``. ``remedy``: what to change."""

    arguments: str
    text: str
    remedy: str
    status: int = 2


def _s3(place: str, more: str = "--store-option allow.http=true") -> str:
    path = "--store-option s3.path.style=true --store-option s3.region=us-east-1"
    return f"ls --store s3://tier --store-option s3.endpoint.url={place} {path} {more}"


_PLAN = "plan --bootstrap-servers {shim} orders --option remote.storage.fetcher.allowed.hosts={store} --option"
_FOUND = "the store has LocalTieredStorage segments below kafka-tiered-storage/ (--layout local-tiered-storage) of topic orders"
MISTAKES: Mapping[str, Row] = {
    "the store's URL has another scheme": Row(
        "ls --store ftp://tier",
        "the store URL must start with one of: az://, file://, gs://, s3://, s3+obstore://",
        "Use one of the schemes.",
    ),
    "the store is another directory": Row(
        "ls --store {directory}", "found no segments; the store has no objects there", "Correct --store."
    ),
    "the directory does not exist": Row(
        "ls --store {directory}/none", "directory does not exist: {empty}/none", "Correct --store."
    ),
    "the layout is unknown": Row(
        "ls --store {tier} --layout avien",
        "unknown layout 'avien'; known layouts: aiven, local-tiered-storage",
        "Use one of the names.",
    ),
    "the layout is another": Row(
        "ls --store {tier} --layout aiven", f"found no segments; {_FOUND}", "Use the layout that is shown."
    ),
    "a key prefix is given to a layout without": Row(
        "ls --store {tier} --key-prefix prod/",
        "the layout local-tiered-storage supports no key prefix and no encryption keys; remove them",
        "Remove the prefix, or use --layout aiven.",
    ),
    "an encryption key has no id": Row(
        "ls --store {tier} --layout aiven --encryption-key key.pem",
        "--encryption-key must be KEYID=PRIVATE_KEY_FILE",
        "Write KEYID=FILE.",
    ),
    "the key file is missing": Row(
        "ls --store {tier} --layout aiven --encryption-key a={missing}",
        "the private key 'a' cannot be read: No such file or directory: {missing}",
        "Correct the path.",
    ),
    "an option of the store is misspelled": Row(
        "ls --store s3://tier --store-option allow.htp=true",
        "unknown setting of the store: allow.htp; did you mean allow.http?",
        "Use the name that is shown.",
    ),
    "an option has no value": Row(
        "ls --store s3://tier --store-option allow.http", "--store-option must have the form KEY=VALUE", "Write KEY=VALUE."
    ),
    "a switch is neither true nor false": Row(
        "ls --store s3://tier --store-option allow.http=yes", "allow.http must be true or false", "Write true or false."
    ),
    "a secret is on the command line": Row(
        "verify --store {tier} --bootstrap-servers {broker} --metadata-consumer sasl.password=hush",
        "--metadata-consumer: sasl.password is a secret, and every user of this machine sees command lines; give "
        "sasl.password=@FILE, sasl.password=env:VARIABLE, or --metadata-consumer @FILE with lines KEY=VALUE",
        "Put the secret into a file or an environment variable.",
    ),
    "http is not allowed for the endpoint": Row(
        _s3("{refused}", ""),
        "the S3 endpoint is plain http; set remote.storage.fetcher.allow.http=true to permit it",
        "Use https, or --store-option allow.http=true.",
    ),
    "the endpoint is closed": Row(
        _s3("http://{closed}"),
        "unavailable: cannot reach {closed}, or it closed the connection (EndpointConnectionError)",
        "Correct the endpoint, or start the store.",
        status=1,
    ),
    "the access key is unknown": Row(
        _s3("{refused}"),
        "access-denied: {refused_host} answered 403 InvalidAccessKeyId; check the access key",
        "Correct the access key.",
        status=1,
    ),
    "the credentials have expired": Row(
        _s3("{expired}"),
        "expired: {expired_host} answered 400 ExpiredToken; the signed URL or the credentials have expired",
        "Get new credentials.",
        status=1,
    ),
    "the bucket does not exist": Row(
        _s3("{bucketless}"),
        "unavailable: {bucketless_host} answered 404 NoSuchBucket; check the bucket in the store's URL",
        "Correct the bucket in --store.",
        status=1,
    ),
    "the bucket is in another region": Row(
        _s3("{elsewhere}"),
        "storage-error: {elsewhere_host} answered 400 AuthorizationHeaderMalformed; set s3.region to the region of the bucket",
        "Give --store-option s3.region=REGION.",
        status=1,
    ),
    "the store's certificate is not trusted": Row(
        _s3("{untrusted}", ""),
        "storage-error: cannot verify the certificate of {untrusted_host}; remote.storage.fetcher.ssl.ca.location must name "
        "the CA that signed it",
        "Give --store-option ssl.ca.location=FILE.",
        status=1,
    ),
    "the CA file is missing": Row(
        _s3("{untrusted}", "--store-option ssl.ca.location={missing}"),
        "remote.storage.fetcher.ssl.ca.location cannot be read as PEM",
        "Correct the path.",
    ),
    "a package is missing": Row(
        "ls --store gs://tier",
        "the plugin gs needs obstore: pip install 'kafka-remote-client[object-store]'",
        "Run the command that is shown.",
    ),
    "the topic is unknown": Row(
        "dump unknown --store {tier}", f"found no segments of unknown; {_FOUND}", "Use one of the topics that are shown."
    ),
    "the partition is unknown": Row(
        "dump orders --store {tier} --partition 7", f"found no segments of orders-7; {_FOUND}", "Correct --partition."
    ),
    "the interval is empty": Row(
        "dump orders --store {tier} --start 5 --end 3",
        "the interval is empty: --start 5 must be below --end 3",
        "Correct the bounds.",
    ),
    "the interval is beyond the tier": Row(
        "dump orders --store {tier} --partition 0 --start 1000000",
        "orders-0: the tier holds offsets 0 to 239, and none at or above 1000000\n"
        "kafka-remote: the tier has no offsets of orders at or above 1000000",
        "Correct the bounds.",
    ),
    "the mapped topic is unknown": Row(
        "map unknown --store {tier}", f"found no segments of unknown; {_FOUND}", "Use one of the topics that are shown."
    ),
    "a price table is missing": Row(
        "cost orders --store {tier} --prices {missing}",
        "--prices: {missing} cannot be read: No such file or directory",
        "Correct the path.",
    ),
    "a storage class is unknown": Row(
        "cost orders --store {tier} --storage-class cold",
        "unknown storage class 'cold'; known classes: deep-archive, glacier, glacier-ir, standard, standard-ia",
        "Use one of the names, or add the class to --prices.",
    ),
    "the mapped cluster's port is closed": Row(
        "map orders --store {tier} --bootstrap-servers {closed}",
        "peer-unreachable: cannot connect to {closed}: connection refused",
        "Start the broker, or correct its address.",
        status=1,
    ),
    "a topic of brokers is unknown": Row(
        "offsets unknown --bootstrap-servers {broker}",
        "broker-error: Metadata of unknown: broker answered with error 3 (UNKNOWN_TOPIC_OR_PARTITION)",
        "Correct the topic.",
        status=1,
    ),
    "the topic id is malformed": Row(
        "dump orders --store {tier} --topic-id x",
        "--topic-id: a Kafka Uuid has 22 characters, not 1",
        "Copy the id from kafka-remote ls.",
    ),
    "the shim's port is closed": Row(
        "plan --bootstrap-servers {closed} orders",
        "no server of kafka.bootstrap.servers is reachable ({closed}: Connection refused)",
        "Start the shim, or correct its address.",
    ),
    "no host is allowed": Row(
        "plan --bootstrap-servers {shim} orders",
        "fetcher 'presigned' needs remote.storage.fetcher.allowed.hosts: the hosts of the stores that it may read",
        "List the hosts of the stores that may be read.",
    ),
    "the planned topic is unknown": Row(
        "plan --bootstrap-servers {shim} unknown --option remote.storage.fetcher.allowed.hosts={store}",
        "broker-error: unknown partitions: unknown; check the topics of the query",
        "Correct the topic.",
        status=1,
    ),
    "an option of Spark is misspelled": Row(
        f"{_PLAN} remote.splitByte=1",
        "unknown option: remote.splitbyte (did you mean remote.splitBytes?)",
        "Use the name that is shown.",
    ),
    "a setting is misspelled": Row(
        f"{_PLAN} fetch.remote.retires=3",
        "unknown setting: fetch.remote.retires; did you mean fetch.remote.retries?",
        "Use the name that is shown.",
    ),
    "a number is a word": Row(
        f"{_PLAN} remote.splitBytes=many", "remote.splitBytes must be a whole number, at least 1", "Write a whole number."
    ),
    "a number is out of bounds": Row(
        f"{_PLAN} fetch.remote.retries=99",
        "fetch.remote.retries must be a whole number between 0 and 10, such as 2",
        "Choose a number within the bounds.",
    ),
    "the shim listens at a malformed address": Row(
        "shim --bootstrap-servers {broker} --listen 9192 --store {tier}", "listen: not host:port: '9192'", "Write host:port."
    ),
}
"""By what is wrong."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as started:
        yield started


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_gives_one_text_and_a_status(
    made: World,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    mistake: str,
) -> None:
    hide_packages(monkeypatch, mistake)
    row = MISTAKES[mistake]
    with pytest.raises(SystemExit) as ended:
        run([made.filled(argument) for argument in row.arguments.split()])
    seen = capsys.readouterr()
    assert (seen.err, ended.value.code) == (f"kafka-remote: {made.filled(row.text)}\n", row.status)
    assert (seen.out, warnings(caplog.records)) == ("", [])
