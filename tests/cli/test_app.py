"""Wrong uses that need no cluster: the last line of each error. ``test_mistakes.py`` has those that need one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.cli_run import failed
from tests.support.golden import golden_local

WRONG: Mapping[str, str] = {
    "nowhere": "Error: No such command 'nowhere'.",
    "--colour": "Error: No such option: --colour",
    "ls": "Error: Missing option '--store'.",
    "ls --store {store} --output xml": "Error: Invalid value for '--output': Value error, 'xml' is not one of 'text', 'json'.",
    "ls --store {store} --partition x": (
        "Error: Invalid value for '--partition': Input should be a valid integer, unable to parse string as an integer"
    ),
    "dump --store {store}": "Error: Invalid value for TOPIC...: name at least one topic",
    "dump a b --store {store} --topic-id x": "Error: Invalid value for --topic-id: --topic-id needs exactly one topic",
    "dump a --store {store} --since noon": "kafka-remote: --since is not a time in ISO 8601: 'noon'",
    "dump a --store {store} --value-schema {missing}": "kafka-remote: --value-schema needs --value-format avro",
    "dump a --store {store} --start -1": ("Error: Invalid value for '--start': Input should be greater than or equal to 0"),
    "export delrec --store {store}": "Error: Missing option '--target'.",
    "export delrec --store {store} --target t --catalog c": "Error: Invalid value for --catalog: needs --format iceberg",
    "verify --store {store} --jobs 0": "Error: Invalid value for '--jobs': Input should be greater than or equal to 1",
    "offsets orders": "Error: Missing option '--bootstrap-servers'.",
    "offsets orders --bootstrap-servers a:1 --time noon": "kafka-remote: --time is not a time in ISO 8601: 'noon'",
    "lag --bootstrap-servers a:1": "Error: Missing argument 'TOPIC'.",
    "locate orders 0": "Error: Missing argument 'OFFSET|TIME'.",
    "locate orders 0 1": "Error: Invalid value for --store: give either --bootstrap-servers or --store",
    "locate orders 0 -12 --bootstrap-servers a:1": (
        "Error: Invalid value: -12 is negative; PARTITION and OFFSET start at 0; kafka-remote offsets shows the ends of a log"
    ),
    "locate orders -1 0": (
        "Error: Invalid value: -1 is negative; PARTITION and OFFSET start at 0; kafka-remote offsets shows the ends of a log"
    ),
    "locate orders 0 1 --outptu json": "Error: No such option: --outptu (Possible options: --layout, --output)",
    "locate orders 0 1 --timeout -1": "Error: Invalid value for '--timeout': Input should be greater than or equal to 0.1",
    "ls --store az://": "kafka-remote: the store URL must be az://BUCKET or az://BUCKET/PREFIX",
    "cluster --directory /proc/none": "kafka-remote: --directory: /proc/none cannot be made: No such file or directory",
    "doctor {missing}": "kafka-remote: {missing} cannot be read: No such file or directory",
    "map delrec": "Error: Missing option '--store'.",
    "map delrec --store {store} --storage-class cold": (
        "kafka-remote: unknown storage class 'cold'; known classes: deep-archive, glacier, glacier-ir, standard, standard-ia"
    ),
    "map delrec --store {store} --prices {missing}": (
        "kafka-remote: --prices: {missing} cannot be read: No such file or directory"
    ),
    "map delrec --store {store} --encryption-key k": "kafka-remote: --encryption-key must be KEYID=PRIVATE_KEY_FILE",
    "bench delrec --store {store} --seconds 0": (
        "Error: Invalid value for '--seconds': Input should be greater than or equal to 0.1"
    ),
    "bench delrec --store {store} --range-bytes many": (
        "Error: Invalid value for '--range-bytes': Input should be a valid integer, unable to parse string as an integer"
    ),
    "bench delrec --store {store} --store-option s3.regoin=x": ("kafka-remote: unknown setting of the store: s3.regoin"),
    "cost delrec": "Error: Invalid value for TOPIC: give a TOPIC and --store, or --write-megabytes-per-second",
    "cost --write-megabytes-per-second 1 --storage-class cold": (
        "kafka-remote: unknown storage class 'cold'; known classes: deep-archive, glacier, glacier-ir, standard, standard-ia"
    ),
    "plan --compare {missing}": "kafka-remote: kafka.bootstrap.servers must be set",
    "cluster --records 10": "Error: Invalid value for '--records': Input should be greater than or equal to 1000",
    "demo --fault unplugged": (
        "Error: Invalid value for '--fault': Value error, 'unplugged' is not one of 'store-down', 'slow-store', 'expired-urls'."
    ),
}
"""From arguments to the last line of the error. Texts in braces are places."""


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_use_has_one_error_and_status_2(capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: str) -> None:
    places = {"store": (golden_local() / "remote").as_uri(), "missing": str(tmp_path / "missing")}
    text, status = failed(capsys, *(argument.format(**places) for argument in arguments.split()))
    assert text.splitlines()[-1] == WRONG[arguments].format(**places)
    assert status == 2


def test_there_are_at_least_25_wrong_uses() -> None:
    assert len(WRONG) >= 25
