"""A target: files appear whole, publishing is idempotent, and file system errors are reported."""

from __future__ import annotations

import errno
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, PyFileSystem, SubTreeFileSystem

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.scanning.export.target import ExportTarget, target_of
from tests.support.counted_files import CountedFiles, counted_files

KINDS = ("local", "hdfs", "objects")


def nothing(operation: str, path: str) -> None:
    pass


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> ExportTarget:
    return target_of(str(tmp_path / "table"), counted_files(nothing, request.param))


def write(target: ExportTarget, path: str, content: bytes) -> None:
    with target.create(path) as file:
        file.write(content)


def test_a_target_is_a_path_or_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for where in ("table", tmp_path / "table", (tmp_path / "table").as_uri()):
        found = target_of(where)
        assert (found.root, found.renames) == (str(tmp_path / "table"), True)
        assert pickle.loads(pickle.dumps(found)) == found
    assert target_of("bucket/table/", LocalFileSystem()).root == "bucket/table"


def test_an_unknown_url_scheme_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot write files to the target nowhere://a"):
        target_of("nowhere://a")


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="holds a password") as raised:
        target_of("s3://me:canary@bucket/table")
    assert "canary" not in str(raised.value)


def test_json_files_appear_whole_or_not_at_all(target: ExportTarget) -> None:
    assert target.read_json("a/b.json") is None
    target.write_json("a/b.json", {"é": [1]})
    target.write_json("a/b.json", {"é": [2]})
    assert target.read_json("a/b.json") == {"é": [2]}
    assert target.names("a") == ["b.json"]
    assert target.names("elsewhere") == []
    write(target, "half.json", b'{"a": ')
    write(target, "empty.json", b"")
    assert target.read_json("half.json") is None
    assert target.read_json("empty.json") is None


def test_a_file_is_created_once(target: ExportTarget) -> None:
    assert target.create_json("a/b.json", 1)
    assert not target.create_json("a/b.json", 2)
    assert (target.read_json("a/b.json"), target.names("a")) == (1, ["b.json"])


def test_a_local_file_is_created_at_most_once_by_many_threads(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    with ThreadPoolExecutor(4) as workers:
        created = list(workers.map(lambda number: target.create_json("a/b.json", number), range(16)))
    assert created.count(True) == 1
    assert target.read_json("a/b.json") == created.index(True)
    assert target.names("a") == ["b.json"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EACCES])
def test_a_folder_without_hard_links_can_be_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refused(self: Path, target: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "hardlink_to", refused)
    target = target_of(tmp_path)
    if code == errno.EACCES:
        with pytest.raises(ExportError, match=r"cannot write a/b\.json in .*Permission denied"):
            target.create_json("a/b.json", 1)
        assert target.names("a") == []
        return
    assert target.create_json("a/b.json", 1)
    assert (target.read_json("a/b.json"), target.names("a")) == (1, ["b.json"])


def test_publishing_is_idempotent(target: ExportTarget) -> None:
    write(target, "_staging/a", b"abc")
    for _ in range(2):
        target.publish("_staging/a", "day=1/a.parquet", 3)
        assert target.size("day=1/a.parquet") == 3
    target.delete_folder("_staging")
    target.delete_folder("_staging")
    target.publish("_staging/a", "day=1/a.parquet", 3)
    with pytest.raises(ExportError, match="does not have the 4 bytes"):
        target.publish("_staging/a", "day=1/a.parquet", 4)


def test_deleting_is_idempotent(target: ExportTarget) -> None:
    write(target, "a", b"abc")
    target.delete_file("a")
    target.delete_file("a")
    assert target.size("a") is None


def test_a_file_that_another_run_deletes_meanwhile_is_deleted(tmp_path: Path) -> None:
    def other_run(operation: str, path: str) -> None:
        if operation == "delete_file" and path.endswith("/a"):
            Path(path).unlink()

    target = target_of(str(tmp_path), counted_files(other_run))
    write(target, "a", b"abc")
    target.delete_file("a")
    assert target.size("a") is None


def test_a_file_that_cannot_be_deleted_is_reported(tmp_path: Path) -> None:
    def refused(operation: str, path: str) -> None:
        if operation == "delete_file":
            raise OSError(errno.EACCES, "Permission denied")

    target = target_of(str(tmp_path), counted_files(refused))
    write(target, "a", b"abc")
    with pytest.raises(ExportError, match=r"cannot delete a in .*Permission denied"):
        target.delete_file("a")


class LateWriter(CountedFiles):
    """A late attempt that adds ``files`` files while its folder is deleted."""

    def __init__(self, files: int) -> None:
        super().__init__(nothing, "local")
        self.left = files

    def delete_dir(self, path: str) -> None:
        super().delete_dir(path)
        if self.left:
            self.left -= 1
            Path(path).mkdir()
            Path(path, "late").touch()
            Path(path).rmdir()  # the last step of deleting a folder fails: it is not empty


def test_a_folder_is_deleted_although_a_late_attempt_writes_there(tmp_path: Path) -> None:
    target = target_of(str(tmp_path), PyFileSystem(LateWriter(files=2)))
    write(target, "_staging/a", b"abc")
    target.delete_folder("_staging")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_stays_non_empty_is_reported(tmp_path: Path) -> None:
    target = target_of(str(tmp_path), PyFileSystem(LateWriter(files=100)))
    write(target, "_staging/a", b"abc")
    with pytest.raises(ExportError, match=r"cannot delete _staging in .*not empty"):
        target.delete_folder("_staging")


def test_a_failed_write_leaves_no_file(target: ExportTarget) -> None:
    def write_half() -> None:
        with target.create("a") as file:
            file.write(b"abc")
            raise KeyError("error of the caller")

    with pytest.raises(KeyError):
        write_half()
    assert target.size("a") is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", ["open", "write", "close"])
def test_a_file_system_error_raises_export_error(tmp_path: Path, kind: str, at: str) -> None:
    def full(operation: str, path: str) -> None:
        if operation == at:
            raise OSError(28, "No space left on device")

    target = target_of(str(tmp_path), counted_files(full, kind))
    with pytest.raises(ExportError, match=r"cannot write a in .*No space left on device"):
        write(target, "a", b"abc")
    assert target.size("a") is None


def test_local_files_are_synced_before_they_are_published(tmp_path: Path) -> None:
    target = target_of(tmp_path)
    write(target, "a", b"abc")
    target.sync("a")
    with pytest.raises(ExportError, match="cannot write b"):
        target.sync("b")
    target.write_json("c.json", 5)
    assert target.read_json("c.json") == 5


def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExportError, match="cannot read file in"):
        target_of(tmp_path).names("file")
    assert repr(target_of(tmp_path)) == f"ExportTarget(filesystem=local, root={str(tmp_path)!r})"
    assert isinstance(target_of(tmp_path).filesystem, pa.fs.LocalFileSystem)


@pytest.mark.parametrize(
    "url", ["s3://AKIA:can/ary@bucket/a", "s3://b/a?secret_key=can/ary", "abfs://a@b?sig=can/ary", "s3://[can/ary@"]
)
def test_errors_redact_secret_parts_of_a_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="target") as raised:
        target_of(url)
    assert "can/ary" not in str(raised.value)


def test_a_sub_tree_file_system_is_a_target(tmp_path: Path) -> None:
    inner = SubTreeFileSystem(str(tmp_path / "a"), LocalFileSystem())
    for where, root in (("b/", "a/b"), ("", "a")):
        found = target_of(where, SubTreeFileSystem("", inner) if where else inner)
        assert (found.root, found.renames) == (str(tmp_path / root), True)
        found.write_json("c.json", 5)
        assert (tmp_path / root / "c.json").read_bytes() == b"5"


def test_a_file_url_may_have_one_slash(tmp_path: Path) -> None:
    assert target_of(f"file:{tmp_path}/table").root == str(tmp_path / "table")
