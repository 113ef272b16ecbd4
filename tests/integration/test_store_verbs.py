"""``kafka-remote ls`` and ``dump`` print the same for a tier in each kind of store as for the tier on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.cli.main import run
from tests.support.azure_server import AzureServer
from tests.support.gcs_server import GcsServer
from tests.support.golden import golden_aiven, golden_local
from tests.support.s3_server import S3Server

pytestmark = pytest.mark.stores

AIVEN = "aiven-zstd-aes"
KEY = golden_aiven(AIVEN) / "keys" / "key1.private.der"
TIERS = {
    "local": (golden_local() / "remote", []),
    "aiven": (golden_aiven(AIVEN) / "remote", ["--layout=aiven", "--key-prefix=some-prefix/", f"--encryption-key=key1={KEY}"]),
}


def files_of(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield f"the tier/{path.relative_to(root).as_posix()}", path.read_bytes()


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        run(list(arguments))
    out, err = capsys.readouterr()
    assert not stopped.value.code, err
    return out


def options_of(server: Any) -> list[str]:
    return [f"--store-option={name}={value}" for name, value in server.options.items()]


def same_as_on_disk(capsys: pytest.CaptureFixture[str], tier: str, scheme: str, server: Any) -> None:
    root, layout = TIERS[tier]
    url = f"{scheme}://{server.new_bucket(files_of(root))}/the tier"
    for verb in (["ls", "--output=json"], ["dump", "txn", "--isolation-level=read_committed"]):
        expected = printed(capsys, *verb, f"--store={root.as_uri()}", *layout)
        assert len(expected.splitlines()) > 1
        assert printed(capsys, *verb, f"--store={url}", *options_of(server), *layout) == expected


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("scheme", ["s3", "s3+obstore"])
def test_verbs_print_the_same_from_s3(
    capsys: pytest.CaptureFixture[str], s3_environment: S3Server, scheme: str, tier: str
) -> None:
    same_as_on_disk(capsys, tier, scheme, s3_environment)


@pytest.mark.parametrize("tier", TIERS)
def test_verbs_print_the_same_from_azure(capsys: pytest.CaptureFixture[str], azure_environment: AzureServer, tier: str) -> None:
    same_as_on_disk(capsys, tier, "az", azure_environment)


@pytest.mark.parametrize("tier", TIERS)
def test_verbs_print_the_same_from_gcs(capsys: pytest.CaptureFixture[str], gcs_server: GcsServer, tier: str) -> None:
    same_as_on_disk(capsys, tier, "gs", gcs_server)


def test_an_unreachable_store_is_reported_in_one_line(capsys: pytest.CaptureFixture[str], s3_environment: S3Server) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["ls", "--store=s3://no-such-bucket", *options_of(s3_environment)])
    assert stopped.value.code
    told = capsys.readouterr().err
    assert "NoSuchBucket" in told
    assert len(told.splitlines()) == 1
