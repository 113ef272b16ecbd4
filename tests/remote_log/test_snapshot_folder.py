"""One file, replaced as a whole, that only its owner can change, in a folder that one process uses."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log import snapshot_folder
from kafka_remote_client.remote_log.snapshot_folder import SNAPSHOT_FILE, SnapshotFolder
from tests.support.descriptors import open_below

NAMES = [SNAPSHOT_FILE]


@pytest.fixture
def folder(tmp_path):
    opened = SnapshotFolder(tmp_path / "a" / "b")
    yield opened
    opened.close()


def names(folder):
    return sorted(one.name for one in folder.file.parent.iterdir())


def test_a_new_folder_has_no_snapshot_and_is_private(folder):
    assert folder.read() is None
    assert folder.file.parent.stat().st_mode & 0o777 == 0o700


def test_a_snapshot_is_replaced_as_a_whole(folder):
    for parts in ([b"first", b"!"], [b"second"], []):
        assert folder.write(parts) == len(b"".join(parts))
        assert folder.read() == b"".join(parts)
        assert folder.file.stat().st_mode & 0o777 == 0o600
        assert names(folder) == NAMES


def fails():
    yield b"half"
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failed_write_leaves_the_old_snapshot(folder):
    folder.write([b"old"])
    with pytest.raises(OSError, match="No space"):
        folder.write(fails())
    with pytest.raises(ConfigurationError, match="more than 5 bytes"):
        folder.write([b"123", b"456"], 5)
    assert folder.read() == b"old"
    assert names(folder) == NAMES


def test_a_folder_that_is_gone_is_an_error_of_the_write(folder):
    folder.file.parent.rmdir()
    with pytest.raises(FileNotFoundError):
        folder.write([b"x"])


def test_a_file_that_is_too_large_is_not_read(folder):
    folder.write([b"123456"])
    assert folder.read(6) == b"123456"
    with pytest.raises(ConfigurationError, match="more than 5 bytes"):
        folder.read(5)


def test_a_file_that_shrinks_while_it_is_read_gives_what_is_there(folder, monkeypatch):
    folder.write([b"123456"])

    def truncated(size, most):
        os.truncate(folder.file, 4)

    monkeypatch.setattr(snapshot_folder, "_check_size", truncated)
    assert folder.read() == b"1234"


def test_only_a_regular_file_is_read(folder, tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"x")
    folder.file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        folder.read()
    folder.file.unlink()
    os.mkfifo(folder.file)
    with pytest.raises(ConfigurationError, match="regular file"):
        folder.read()


def test_a_directory_in_place_of_the_file_leaves_no_descriptor(folder):
    folder.file.mkdir()
    with pytest.raises(ConfigurationError, match="not a regular file"):
        folder.read()
    assert open_below(folder.file) == []


def test_a_file_that_others_can_change_is_not_read(folder):
    folder.write([b"x"])
    folder.file.chmod(0o620)
    with pytest.raises(ConfigurationError, match=r"other users can write to the file .*; its mode is 620"):
        folder.read()


def test_a_folder_that_others_can_change_is_not_used(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigurationError, match="other users can write to the folder"):
        SnapshotFolder(tmp_path)


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    found = tmp_path.stat()
    foreign = os.stat_result([*found[:4], 12345, *found[5:10]])
    monkeypatch.setattr(snapshot_folder.os, "fstat", lambda _: foreign)
    with pytest.raises(ConfigurationError, match="belongs to user 12345"):
        SnapshotFolder(tmp_path)


def test_a_folder_has_one_process(folder, tmp_path):
    with pytest.raises(ConfigurationError, match="another process uses the folder"):
        SnapshotFolder(folder.file.parent)
    folder.close()
    again = SnapshotFolder(folder.file.parent)
    again.close()
    folder._folder = os.open(tmp_path, os.O_RDONLY)  # for the fixture to close


WRITER = """
import sys
from pathlib import Path
from kafka_remote_client.remote_log.snapshot_folder import SnapshotFolder

def parts():
    yield b"x" * (1 << 21)
    print("half", flush=True)
    sys.stdin.read()

SnapshotFolder(Path(sys.argv[1])).write(parts())
"""


def test_a_process_killed_while_it_writes_leaves_the_old_snapshot(folder):
    folder.write([b"old"])
    path = folder.file.parent
    folder.close()
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"half\n"
        writer.send_signal(signal.SIGKILL)
    assert len(names(folder)) == 2
    again = SnapshotFolder(path)
    assert again.read() == b"old"
    again.write([b"new"])
    assert again.read() == b"new"
    assert names(again) == NAMES
    folder._folder = again._folder  # for the fixture to close
