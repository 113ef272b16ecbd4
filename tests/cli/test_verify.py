import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_remote_client.cli.main import run
from tests.support.aiven_tier import MODES, AivenTier
from tests.support.golden import AIVEN_MODES, golden_aiven, golden_local
from tests.support.kafka_broker import KafkaBroker
from tests.support.ports import free_ports
from tests.support.s3_server import S3Server
from tests.support.scenario import TransactionalTopic


def verify(*arguments: str, store: Path | None = None, root: Path | None = None) -> int:
    place = store or (root or golden_local()) / "remote"
    with pytest.raises(SystemExit) as stopped:
        run(["verify", "--store", place.as_uri(), *arguments])
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """The golden tier's topic ``epochs`` with one flipped bit and one stray file."""
    source = golden_local() / "remote" / "kafka-tiered-storage"
    for directory in source.glob("epochs-0-*"):
        shutil.copytree(directory, tmp_path / source.name / directory.name)
    log = min((tmp_path / source.name).rglob("*.log"))
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    (log.parent / "notes.txt").write_text("remember")
    return tmp_path


def test_a_valid_tier_has_status_0_after_an_estimate_of_its_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("txn", "epochs") == 0
    said = capsys.readouterr()
    assert said.out.startswith("sound: 2 topics, 3 partitions, 38 segments")
    assert said.err == "kafka-remote: 38 segments, about 1011548 bytes to read\n"


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_the_options_of_a_layout_are_those_of_dump(capsys: pytest.CaptureFixture[str], mode: str) -> None:
    root = golden_aiven(mode)
    options = ["--layout", "aiven"]
    if mode == "aiven-zstd-aes":
        options += ["--key-prefix", "some-prefix/", "--encryption-key", f"key1={root / 'keys' / 'key1.private.der'}"]
    assert verify(*options, "epochs", root=root) == 0
    assert "sound: 1 topics" in capsys.readouterr().out


def test_findings_have_status_1_and_are_listed_by_kind(capsys: pytest.CaptureFixture[str], damaged: Path) -> None:
    assert verify(store=damaged) == 1
    out = capsys.readouterr().out
    assert "batch-damaged (damage)" in out
    assert "foreign-object (waste)" in out
    assert "its checksum does not match its bytes" in " ".join(out.split())
    assert out.splitlines()[-2].startswith("findings: 1 topics, 1 partitions, 7 segments")
    totals = [line.split() for line in out.splitlines()]
    assert ["foreign-object", "waste", "1", "8"] in totals


def test_json_is_one_object_for_each_finding_and_a_summary(capsys: pytest.CaptureFixture[str], damaged: Path) -> None:
    assert verify("--output=json", "--jobs", "1", store=damaged) == 1
    foreign, batch, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert foreign["kind"] == "foreign-object"
    assert foreign["object"].endswith("/notes.txt")
    assert (batch["kind"], batch["topic"], batch["partition"], batch["start_offset"]) == ("batch-damaged", "epochs", 0, 0)
    assert summary["verdict"] == "findings"
    assert summary["findings"]["batch-damaged"] == {"count": 1, "bytes": batch["bytes"]}


def test_verify_writes_nothing(damaged: Path) -> None:
    def look() -> dict[str, tuple[int, int, bytes]]:
        files = [path for path in damaged.rglob("*") if path.is_file()]
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size, path.read_bytes()) for path in files}

    before = look()
    assert verify(store=damaged) == 1
    assert look() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["nowhere"],
            "found no topic nowhere in the store; the store has LocalTieredStorage segments",
        ),
        (
            ["--layout", "aiven"],
            "found no segment in the store; the store has LocalTieredStorage segments below kafka-tiered-storage/",
        ),
        (["--layout", "bogus"], "unknown layout 'bogus'"),
        (["--encryption-key", "bogus"], "KEYID=PRIVATE_KEY_FILE"),
        (["--bogus"], "--bogus"),
    ],
)
def test_invalid_use_has_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert verify(*arguments) == 2
    assert said in capsys.readouterr().err


def test_a_wrong_prefix_names_the_place_of_the_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    root = golden_aiven("aiven-zstd-aes") / "remote"
    for more in ([], ["--key-prefix", "other/"], ["--output=json"]):
        assert verify("--layout", "aiven", *more, store=root) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "the store has Aiven manifests below some-prefix/ (--layout aiven --key-prefix some-prefix/)" in printed.err


def test_a_missing_store_has_status_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert verify(store=tmp_path / "gone") == 2
    assert "directory does not exist" in capsys.readouterr().err


def test_an_unreachable_broker_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    arguments = ["--bootstrap-server", f"127.0.0.1:{port}", "--metadata-consumer", "log_level=0"]
    assert verify(*arguments, "--metadata-timeout", "0.2") == 2
    assert "timed out after 0.2 s reading __remote_log_metadata; raise --metadata-timeout" in capsys.readouterr().err
    assert verify("--bootstrap-server", "x", "--metadata-consumer", "no.such.setting=1") == 2
    assert "no.such.setting" in capsys.readouterr().err


def test_encrypted_segments_without_key_have_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--layout", "aiven", "--key-prefix", "some-prefix/", root=golden_aiven("aiven-zstd-aes")) == 2
    assert "not checked: " in capsys.readouterr().out


def test_the_tier_of_a_real_broker_is_valid_with_its_metadata_topic(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = transactional_topic.topic
    arguments = [topic, "--bootstrap-server", kafka_broker.bootstrap_servers, "--output=json"]
    for more in ([], ["--quick"]):
        assert verify(*arguments, *more, store=kafka_broker.store_directory) == 0, capsys.readouterr().out
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert summary["verdict"] == "sound"
        assert summary["segments_checked"] == transactional_topic.remote_segments


@pytest.mark.parametrize("mode", MODES)
def test_the_tier_of_a_real_broker_in_aivens_layout_is_valid(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    wide_topic: str,
    aiven_tier: Callable[[str], AivenTier],
    mode: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tier = aiven_tier(mode)
    arguments = [
        transactional_topic.topic,
        wide_topic,
        "--layout",
        "aiven",
        "--key-prefix",
        tier.listed_prefix,
        "--output=json",
    ]
    for key_id, file in tier.encryption_keys.items():
        arguments += ["--encryption-key", f"{key_id}={file}"]
    known = ["--bootstrap-server", kafka_broker.bootstrap_servers, "--metadata-topic", tier.metadata_topic]
    for more in (known, [*known, "--quick"], []):
        assert verify(*arguments, *more, store=tier.directory) == 0, capsys.readouterr().out
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert summary["topics"] == 2
        assert summary["segments_checked"] == summary["segments"]


@pytest.mark.stores
def test_a_tier_in_a_bucket_is_checked_as_one_in_a_directory(
    s3_environment: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden_aiven("aiven-zstd-aes") / "remote"
    objects = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    cut = min(key for key in objects if key.endswith(".log") and "/epochs-" in key)
    objects[cut] = objects[cut][:-1]
    url = f"s3://{s3_environment.new_bucket(objects.items())}"
    arguments = ["verify", "--store", url, "--layout", "aiven", "--key-prefix", "some-prefix/", "--output=json", "epochs"]
    arguments += ["--encryption-key", f"key1={root.parent / 'keys' / 'key1.private.der'}"]
    for name, value in s3_environment.options.items():
        arguments += ["--store-option", f"{name}={value}"]
    with pytest.raises(SystemExit) as stopped:
        run(arguments)
    assert stopped.value.code == 1
    finding, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (finding["kind"], finding["object"]) == ("log-size", cut)
    assert summary["segments_checked"] == summary["segments"]
    assert summary["bytes_read"] <= summary["bytes_estimated"]


def test_an_object_removed_from_a_copied_tier_is_reported_missing(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    root = kafka_broker.store_directory / "kafka-tiered-storage"
    for directory in root.glob(f"{transactional_topic.topic}-0-*"):
        shutil.copytree(directory, tmp_path / root.name / directory.name)
    logs = sorted(tmp_path.rglob("*.log"))
    for path in tmp_path.rglob(f"{logs[1].stem}.*"):
        path.unlink()
    logs[2].unlink()
    arguments = [transactional_topic.topic, "--bootstrap-server", kafka_broker.bootstrap_servers, "--output=json"]
    assert verify(*arguments, store=tmp_path) == 1
    *findings, _ = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(finding["kind"] for finding in findings) == ["missing-object", "missing-segment"]
