"""The place of a table: a local folder or a part of an object store, through pyarrow's file systems.

::

    file system          | a name appears by                            | publishing a staged file is
    local, HDFS          | rename; local also by link, at most once     | rename
    object stores        | the end of the upload, as a whole            | a copy in the store; the staged one goes later

All paths here are relative to the target. A file that an attempt opened and did not close has its staged name only.

References: ``pyarrow.fs``; docs/tables.md, "Export".
"""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import pyarrow as pa
import pyarrow.fs

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.parsing import parse_json
from kafka_remote_client.scanning.export.written_files import WrittenFile
from kafka_remote_client.threads import DaemonExecutor

__all__ = ["ExportTarget", "target_of"]

_RENAMING = frozenset({"local", "hdfs"})
_DELETIONS = 5
"""Attempts to remove a folder while another attempt still writes to it."""
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors of a local file system that has no hard links."""
_SECRETS = frozenset({"sig", "client_secret", "secret_key", "access_key"})
"""Parameters of URLs that are credentials."""


@attrs.frozen
class ExportTarget:
    """``root``: a path of ``filesystem``. It can be pickled where the file system can be.

    Each method raises ExportError for what the file system refuses: no space, no permission, no bucket.
    """

    filesystem: pa.fs.FileSystem = attrs.field(repr=lambda found: found.type_name)
    root: str

    @property
    def renames(self) -> bool:
        """Whether a file gets another name in one step, whatever its size."""
        return self._type in _RENAMING

    @property
    def _type(self) -> str:
        name: str = self.filesystem.type_name
        return name.removeprefix("py::")

    @contextmanager
    def create(self, path: str) -> Iterator[pa.NativeFile]:
        """A new file for writing, which is closed at the end; a failed write leaves no file behind."""
        with self.failing("write", path):
            self._make_room(path)
            file = self.filesystem.open_output_stream(self._at(path))
            try:
                yield file
                file.close()
            except BaseException:
                self._abandon(file, path)
                raise

    def sync(self, path: str) -> None:
        """Returns once a local file is on the disk; of other file systems a closed file is."""
        if self.filesystem.type_name != "local":
            return
        with self.failing("write", path), Path(self._at(path)).open("rb") as file:
            os.fsync(file.fileno())

    def write_json(self, path: str, value: object, *, staging: str | None = None) -> None:
        """A whole file, or the one that was there before. ``staging``: the folder where it is written, by default its own.

        A run that is killed may leave the file there under another name. HDFS renames no file to the name of another one. There
        the earlier one is deleted first, and for a moment there is none.
        """
        if not self.renames:
            self._write_whole(path, value)
            return
        unfinished = path if staging is None else f"{staging}/{path.rpartition('/')[2]}"
        whole = f"{unfinished}.{uuid.uuid4().hex}"
        self._write_whole(whole, value)
        with self.failing("write", path):
            self._make_room(path)
            if self._type == "hdfs":
                self.delete_file(path)
            self.filesystem.move(self._at(whole), self._at(path))

    def create_json(self, path: str, value: object) -> bool:
        """Writes a file that does not exist yet; False if it exists: then it is not changed.

        Only local file systems decide this in one step. Elsewhere another process may write the file between the question and
        the write, because pyarrow has no conditional writes; then the later one counts.
        """
        if self.filesystem.type_name != "local":
            if self.size(path) is not None:
                return False
            self.write_json(path, value)
            return True
        whole = f"{path}.{uuid.uuid4().hex}"
        self._write_whole(whole, value)
        with self.failing("write", path):
            try:
                Path(self._at(path)).hardlink_to(self._at(whole))
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self.filesystem.move(self._at(whole), self._at(path))
                return True
            finally:
                Path(self._at(whole)).unlink(missing_ok=True)
        return True

    def read_json(self, path: str) -> Any:
        """The contents of a file; None if it does not exist or is incomplete."""
        with self.failing("read", path):
            if not self.size(path):
                return None
            with self.filesystem.open_input_stream(self._at(path)) as file:
                text = file.read()
        try:
            return parse_json(text)
        except ValueError:
            return None

    def size(self, path: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        with self.failing("read", path):
            found = self.filesystem.get_file_info(self._at(path))
        return found.size if found.is_file else None

    def names(self, folder: str) -> list[str]:
        """The names of files and folders in a folder; empty if it does not exist."""
        with self.failing("read", folder):
            selector = pa.fs.FileSelector(self._at(folder), allow_not_found=True)
            return sorted(found.base_name for found in self.filesystem.get_file_info(selector))

    def publish(self, staged: str, path: str, size: int) -> None:
        """Gives a staged file its visible name in one step. May be repeated.

        Raises ExportError also if neither name has such a file.
        """
        if self.size(staged) != size:
            if self.size(path) == size:
                return  # an earlier run did it
            raise ExportError(
                f"cannot publish {path} in {self.root}: {staged} does not have the {size} bytes that were written; "
                f"remove the files of this job and run it again"
            )
        with self.failing("publish", path):
            try:
                if self.renames:
                    self._make_room(path)
                    self.filesystem.move(self._at(staged), self._at(path))
                else:
                    self.filesystem.copy_file(self._at(staged), self._at(path))
            except OSError:
                if self.size(path) != size:  # otherwise another run of the job did it meanwhile
                    raise

    def publish_all(self, files: Sequence[WrittenFile], threads: int) -> None:
        """As :meth:`publish`, for several files at a time; stops at the first failure."""
        with DaemonExecutor(threads, "kafka-remote-publish") as workers:
            try:
                for _ in workers.map(lambda file: self.publish(file.staged, file.path, file.size_in_bytes), files):
                    pass
            except BaseException:
                workers.shutdown(wait=True, cancel_futures=True)
                raise

    def delete_folder(self, folder: str) -> None:
        """Removes a folder with its contents, if it exists. Another attempt may still write to it."""
        with self.failing("delete", folder):
            for more in reversed(range(_DELETIONS)):
                if self.filesystem.get_file_info(self._at(folder)).type is not pa.fs.FileType.Directory:
                    return
                try:
                    self.filesystem.delete_dir(self._at(folder))
                except FileNotFoundError:  # another run of the job removes it
                    continue
                except OSError as error:
                    if error.errno != errno.ENOTEMPTY or not more:
                        raise
                else:
                    return

    def delete_file(self, path: str) -> None:
        """Removes a file, if it exists. Another run of the job may remove it too."""
        if self.size(path) is not None:
            with self.failing("delete", path):
                try:
                    self.filesystem.delete_file(self._at(path))
                except OSError:
                    if self.size(path) is not None:
                        raise

    def _write_whole(self, path: str, value: object) -> None:
        with self.create(path) as file:
            file.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
        self.sync(path)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _make_room(self, path: str) -> None:
        if self.renames:
            self.filesystem.create_dir(self._at(path).rpartition("/")[0], recursive=True)

    def _abandon(self, file: pa.NativeFile, path: str) -> None:
        try:
            file.close()
            self.filesystem.delete_file(self._at(path))
        except OSError:  # it has a staged name, and goes with the folder
            pass

    @contextmanager
    def failing(self, what: str, path: str) -> Iterator[None]:
        """Raises the errors of the file system as ExportError."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise ExportError(f"cannot {what} {path} in {self.root}: {reason}") from error


def target_of(where: str | os.PathLike[str], filesystem: pa.fs.FileSystem | None = None) -> ExportTarget:
    """A folder: a path, or a URL that pyarrow knows (``file://``, ``s3://``, ``gs://``, ``abfs://``, ``hdfs://``).

    With ``filesystem``, a path of it. Raises ConfigurationError for an empty text, a URL that pyarrow does not know, and one
    that holds a password or a key: credentials come from the environment. No error shows what may hold one.
    """
    text = os.fspath(where)
    if isinstance(filesystem, pa.fs.SubTreeFileSystem):  # a folder, of which only the file system below says how it works
        below = "/".join(part for part in (filesystem.base_path.rstrip("/"), text.strip("/")) if part)
        return target_of(below, filesystem.base_fs)
    if filesystem is not None:
        return ExportTarget(filesystem, text.rstrip("/"))
    if not text:
        raise ConfigurationError("the target is empty; give a folder, . for this one, or a URL")
    if "://" not in text and not text.startswith("file:/"):
        return ExportTarget(pa.fs.LocalFileSystem(), str(Path(text).absolute()))
    try:
        split = urlsplit(text)
        secret = split.password is not None or bool(_SECRETS.intersection(parse_qs(split.query, keep_blank_values=True)))
        found, root = (None, "") if secret else pa.fs.FileSystem.from_uri(text)
    except (ValueError, OSError, NotImplementedError) as error:
        shown = f"{text.partition(':')[0]}://…" if {"@", "?"} & set(text) else text
        raise ConfigurationError(f"cannot write files to the target {shown}: {str(error).replace(text, shown)}") from None
    if found is None:
        raise ConfigurationError("the target's URL holds a password or a key; give credentials in the environment")
    return ExportTarget(found, root.rstrip("/"))
