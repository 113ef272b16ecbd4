from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Never

import pytest

from kafka_remote_client.cli.doctor import Examination, examine
from kafka_remote_client.cli.main import run
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import (
    DirectFetchError,
    InvalidStorageResponseError,
    PeerCertificateError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
    SecurityProtocolError,
    UnservedConnectionError,
)
from kafka_remote_client.model import NotRemote
from tests.support.cli_run import failed, printed
from tests.support.embedded_topics import direct_settings
from tests.support.golden import golden_aiven
from tests.support.mistakes import MISTAKES, Mistake, World, world

pytestmark = pytest.mark.embedded

DOCTOR = "kafka_remote_client.cli.doctor"
SOUND = """\
configuration  ok: settings are valid: {count}
broker         ok: bootstrap.servers answer; topics: 2
shim           ok: {shim} announces direct fetch
tier           ok: orders-0 is tiered from offset 0 to 239
location       ok: {size} bytes of a segment in format ApacheKafkaV1 are granted
host           ok: the store's host is permitted
GET            ok: {size} bytes arrived
bytes          ok: checksums are right: 60 records
clock          ok: the batch is not in the future of this machine
"""
FORBIDDEN = """\
host           failed: the URL is plain http; set
               remote.storage.fetcher.allow.http=true to permit it
GET            skipped
bytes          skipped
clock          skipped
change         Permit this store: correct the remote.storage.fetcher.* setting
               that the reason names.
"""
UNREACHABLE = """\
shim           failed: cannot connect to {closed}: connection refused
{skipped}change         Start the server at that address, or correct the address.
"""
SKIPPED = "".join(f"{name:15}skipped\n" for name in ("tier", "location", "host", "GET", "bytes", "clock"))
PLAIN_BROKER = f"""\
shim           failed: {{broker}} does not announce direct fetch;
               fetch.remote.bootstrap.servers (or bootstrap.servers) must name
               the shim
{SKIPPED}change         Let fetch.remote.bootstrap.servers name the shim.
"""
OTHER_LAYOUT = f"""\
configuration  ok: settings are valid: 6
store          ok: the store lists objects
layout         failed: found no segments; the store has LocalTieredStorage
               segments below kafka-tiered-storage/ (--layout
               local-tiered-storage) of topic orders
{SKIPPED}change         Correct the setting that the reason names.
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as started:
        yield started


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "consumer.properties"


def write(file: Path, settings: Mapping[str, object]) -> None:
    """Writes a consumer's configuration as a user does."""
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()}
    file.write_text("".join(f"{name}={value}\n" for name, value in texts.items()))


def examined(settings: Mapping[str, object], topic: str | None = None) -> dict[str, tuple[str, str, str | None]]:
    steps = examine(Examination(settings, SystemClock(), 10.0, topic))
    return {step.name: (step.state, step.reason, step.remedy) for step in steps}


def test_each_step_of_a_sound_configuration_is_ok(made: World, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = made.settings(Mistake({}, ""))
    write(file, settings)
    lines = [json.loads(line) for line in printed(capsys, "doctor", str(file), "--output", "json").splitlines()]
    assert {line["state"] for line in lines} == {"ok"}
    assert {line["remedy"] for line in lines} == {None}
    size = next(line["reason"].split()[0] for line in lines if line["name"] == "GET")
    text = SOUND.format(count=len(settings), shim=made.places["shim"], size=size)
    assert printed(capsys, "doctor", str(file)) == text


@pytest.mark.parametrize(
    ("mistake", "end"),
    [
        ("http is not allowed", FORBIDDEN),
        ("the shim is a plain broker", PLAIN_BROKER),
        ("the shim's port is closed", UNREACHABLE.replace("{skipped}", SKIPPED)),
    ],
)
def test_broken_configuration_names_what_to_change(
    made: World, file: Path, capsys: pytest.CaptureFixture[str], mistake: str, end: str
) -> None:
    write(file, made.settings(MISTAKES[mistake]))
    lines = [json.loads(line) for line in printed(capsys, "doctor", str(file), "--output", "json", status=1).splitlines()]
    (failed_step,) = [line for line in lines if line["state"] == "failed"]
    assert failed_step["remedy"] in " ".join(made.filled(end).split())
    assert failed_step["reason"] in " ".join(made.filled(end).split())
    assert [line["state"] for line in lines] == ["ok"] * lines.index(failed_step) + ["failed"] + ["skipped"] * (
        len(lines) - lines.index(failed_step) - 1
    )
    text = printed(capsys, "doctor", str(file), status=1)
    assert text.endswith(made.filled(end)), text
    assert "failed" not in text.removesuffix(made.filled(end))


def test_store_with_another_layout_names_its_own(made: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "doctor", made.places["tier"], "--layout", "aiven", status=1) == OTHER_LAYOUT


def test_topic_that_the_store_does_not_have_is_named(made: World, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        json.loads(line)
        for line in printed(capsys, "doctor", made.places["tier"], "typo", "--output", "json", status=1).splitlines()
    ]
    failed = next(line for line in lines if line["state"] == "failed")
    assert failed["name"] == "layout"
    assert failed["reason"].startswith("found no segments of topic typo; the store has LocalTieredStorage segments below ")
    assert failed["remedy"] == "Name a topic that the store has, or correct the URL of the store or the layout."


def test_store_alone_is_checked_up_to_its_bytes(made: World, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["doctor", made.places["tier"], "orders", "--output", "json"]
    lines = [json.loads(line) for line in printed(capsys, *asked).splitlines()]
    names = ["configuration", "store", "layout", "tier", "location", "host", "GET", "bytes", "clock"]
    assert [(line["name"], line["state"]) for line in lines] == [(name, "ok") for name in names]


def test_topic_as_an_option_works_with_one_warning(made: World, capsys: pytest.CaptureFixture[str]) -> None:
    new = printed(capsys, "doctor", made.places["tier"], "orders")
    with pytest.raises(SystemExit) as ended:
        run(["doctor", made.places["tier"], "--topic", "orders"])
    old = capsys.readouterr()
    assert (ended.value.code, old.out) == (0, new)
    assert old.err.count("WARNING: --topic is deprecated") == 1


@pytest.mark.parametrize(
    ("mistake", "step", "reason", "remedy"),
    [
        ("a setting is misspelled", "configuration", "did you mean fetch.remote.retries?", "Correct the setting"),
        ("the shim's port is closed", "shim", "connection refused", "Start the server at that address"),
        ("no host is allowed", "host", "remote.storage.fetcher.allowed.hosts", "Correct the setting"),
        ("another host is allowed", "host", "is not in remote.storage.fetcher.allowed.hosts", "Permit this store"),
        ("the store is another directory", "store", "no objects below file://", "Correct the URL of the store."),
        ("the endpoint is closed", "store", "cannot reach", "Start the store"),
        ("the access key is unknown", "store", "403", "Correct the credentials"),
    ],
)
def test_each_mistake_fails_at_its_step(made: World, mistake: str, step: str, reason: str, remedy: str) -> None:
    found = examined(made.settings(MISTAKES[mistake]))
    ((name, (_, why, change)),) = [item for item in found.items() if item[1][0] == "failed"]
    assert name == step
    assert reason in why
    assert (change or "").startswith(remedy)


def test_listing_with_a_broker_is_checked_at_both(made: World) -> None:
    settings = {
        "bootstrap.servers": made.places["shim"],
        "fetch.remote.enabled": True,
        "fetch.remote.location.source": "listing",
        "remote.storage.store.url": made.places["tier"],
    }
    found = examined(settings)
    assert list(found)[1:4] == ["broker", "store", "layout"]


def test_store_that_is_down_fails_the_get(made: World) -> None:
    made.cluster.faults.store_down()
    try:
        found = examined({**direct_settings(made.cluster), "fetch.remote.enabled": True})
    finally:
        made.cluster.faults.clear()
    assert found["host"][0] == "ok"
    assert found["GET"][0] == "failed"
    assert (found["GET"][2] or "").startswith("Start the store")


def test_damaged_bytes_are_found(made: World, tmp_path: Path) -> None:
    shutil.copytree(made.cluster.directory, tmp_path / "tier")
    first = min((tmp_path / "tier").rglob("*orders-0-*/*.log"))
    data = bytearray(first.read_bytes())
    data[200] ^= 1
    first.write_bytes(data)
    settings = {
        "fetch.remote.enabled": True,
        "fetch.remote.location.source": "listing",
        "fetch.remote.listing.broker": False,
        "remote.storage.store.url": (tmp_path / "tier").as_uri(),
    }
    state, _, remedy = examined(settings)["bytes"]
    assert (state, remedy) == ("failed", "Check the tier with kafka-remote verify.")


def test_clock_behind_the_records_is_found(made: World) -> None:
    class Behind(SystemClock):
        def time_ms(self) -> int:
            return super().time_ms() - 600_000

    steps = examine(Examination(made.settings(Mistake({}, "")), Behind(), 10.0))
    assert (steps[-1].name, steps[-1].state, steps[-1].remedy) == ("clock", "failed", "Set this machine's clock (NTP).")


def test_direct_fetch_that_is_off_is_found() -> None:
    assert examined({"bootstrap.servers": "127.0.0.1:1"})["configuration"] == (
        "failed",
        "fetch.remote.enabled is false: brokers serve all records",
        "Set fetch.remote.enabled=true.",
    )


def test_topic_that_the_cluster_does_not_have_is_named(made: World) -> None:
    state, reason, remedy = examined(made.settings(Mistake({}, "")), "typo")["broker"]
    assert (state, remedy) == ("failed", "Name a topic that the cluster has.")
    assert "typo" in reason


@pytest.mark.parametrize(
    ("failing", "clocks_differ", "step", "remedy"),
    [
        (f"{DOCTOR}.Examination._store", False, "store", "or permit them to list the store (S3: s3:ListBucket)."),
        (f"{DOCTOR}.read_range", False, "GET", "or permit them to read its objects (S3: s3:GetObject)."),
        (f"{DOCTOR}.Examination._store", True, "store", "Set the clock (NTP) of"),
        (f"{DOCTOR}.read_range", True, "GET", "Set the clock (NTP) of"),
    ],
)
def test_remedy_of_refused_access_names_permission_or_clock(
    made: World, monkeypatch: pytest.MonkeyPatch, failing: str, clocks_differ: bool, step: str, remedy: str
) -> None:
    def refused(*_: object, **__: object) -> Never:
        raise RemoteStorageAccessError("the store refuses it", clocks_differ=clocks_differ)

    sound = {
        "fetch.remote.enabled": True,
        "fetch.remote.location.source": "listing",
        "fetch.remote.listing.broker": False,
        "remote.storage.store.url": made.places["tier"],
    }
    examination = Examination(sound, SystemClock(), 10.0)
    monkeypatch.setattr(failing, refused)
    (failed_step,) = (one for one in examine(examination) if one.state == "failed")
    assert failed_step.name == step
    assert remedy in (failed_step.remedy or "")


def test_topic_without_tiered_records_is_found(made: World) -> None:
    made.cluster.produce("untiered", [(b"key", b"value")])
    state, reason, _ = examined(made.settings(Mistake({}, "")), "untiered")["tier"]
    assert (state, reason) == ("failed", "no partition has tiered records")


@pytest.mark.parametrize(
    ("text", "told"), [(None, "cannot be read: No such file or directory"), ("enabled", "must have the form KEY=VALUE")]
)
def test_file_that_is_no_configuration_has_status_2(
    file: Path, capsys: pytest.CaptureFixture[str], text: str | None, told: str
) -> None:
    if text is not None:
        file.write_text(text)
    seen, status = failed(capsys, "doctor", str(file))
    assert told in seen
    assert status == 2


def test_a_client_without_a_shim_is_not_sent_to_one(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_remote_client.cli.doctor.locate_one", lambda *_: NotRemote("metadata-not-ready"))
    listing = {
        "bootstrap.servers": made.places["shim"],
        "fetch.remote.enabled": True,
        "fetch.remote.location.source": "listing",
        "remote.storage.store.url": made.places["tier"],
    }
    by_shim = {**direct_settings(made.cluster), "fetch.remote.enabled": True}
    for settings, said in ((by_shim, "Look for the reason in the shim's log"), (listing, "Raise --timeout;")):
        (step,) = (step for step in examine(Examination(settings, SystemClock(), 10.0)) if step.state == "failed")
        assert (step.name, step.reason) == ("location", "no location is granted: metadata-not-ready")
        assert step.remedy is not None
        assert step.remedy.startswith(said)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (InvalidStorageResponseError, "Correct the address of the store."),
        (RemoteStorageError, "Correct the store's settings: see the reason."),
        (RemoteStorageUnavailableError, "Start the store, open the network to it, or correct its address or bucket."),
        (PeerCertificateError, "Correct ssl.ca.location, or ssl.certificate.location and ssl.key.location."),
        (SecurityProtocolError, "Correct security.protocol, or name the port that has this protocol."),
        (
            UnservedConnectionError,
            "Correct security.protocol or the port, or raise the limits of the shim. Its log has the reason.",
        ),
    ],
)
def test_the_remedy_follows_the_kind_of_the_error(
    made: World, monkeypatch: pytest.MonkeyPatch, error: type[DirectFetchError], remedy: str
) -> None:
    def refused(*_: object) -> Never:
        raise error("no more is said")

    monkeypatch.setattr("kafka_remote_client.cli.doctor.open_leaders", refused)
    steps = examine(Examination(direct_settings(made.cluster), SystemClock(), 10.0))
    assert [step.remedy for step in steps if step.state == "failed"] == [remedy]


def test_tls_on_a_plain_port_names_the_security_protocol(made: World) -> None:
    steps = examine(Examination({**direct_settings(made.cluster), "security.protocol": "SSL"}, SystemClock(), 10.0))
    (failed_step,) = (step for step in steps if step.state == "failed")
    assert (failed_step.name, failed_step.remedy) == (
        "broker",
        "Correct security.protocol or the port, or raise the limits of the shim. Its log has the reason.",
    )


def test_encrypted_store_needs_the_private_key_and_is_checked_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    tier = golden_aiven("aiven-zstd-aes")
    asked = ["doctor", (tier / "remote").as_uri(), "txn", "--layout", "aiven", "--key-prefix", "some-prefix/"]
    told = " ".join(printed(capsys, *asked, status=1).split())
    assert "whose private key is not configured" in told
    assert told.endswith("Name the private key that the reason names: remote.storage.store.encryption.keys (--encryption-key).")
    key = f"key1={tier / 'keys' / 'key1.private.der'}"
    assert "checksums are right" in printed(capsys, *asked, "--encryption-key", key)
