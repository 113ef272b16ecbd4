"""A file system that counts its operations, so that a test can fail, or end its process, at any of them.

``CountedFiles`` wraps a local folder. With ``kind`` "local", files are renamed, and written bytes are visible at once. With
"objects", a file becomes visible as a whole when it is closed, as in an object store, and is copied to its visible name. With
"hdfs" it is as with "local", but no file is renamed to the name of another one (FileSystem.rename of Hadoop returns false).
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSystemHandler, LocalFileSystem, PyFileSystem

__all__ = ["CountedFiles", "counted_files"]


def counted_files(before: Callable[[str, str], None], kind: str = "local") -> PyFileSystem:
    """``before`` is called with the name and the path of each operation before it happens."""
    return PyFileSystem(CountedFiles(before, kind))


def _upload(path: str) -> str:
    """The file of an upload that is not closed. Readers of the folder skip it, because a store does not list such an object."""
    return str(Path(path).with_name(f"_{Path(path).name}.{uuid.uuid4().hex}.upload"))


class _Written(io.RawIOBase):
    """A file that is being written. An object is not visible before it is closed."""

    def __init__(self, files: CountedFiles, path: str) -> None:
        super().__init__()
        self._files, self._path = files, path
        self._objects = files.kind == "objects"
        self._hidden = _upload(path) if self._objects else path
        self._file = Path(self._hidden).open("wb")  # noqa: SIM115 - closed with this one

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._files.before("write", self._path)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        if self.closed or not hasattr(self, "_file"):  # it could not be opened
            return
        try:
            self._files.before("close", self._path)
        finally:
            super().close()
            self._file.close()
        if self._objects:
            Path(self._hidden).replace(self._path)


class CountedFiles(FileSystemHandler):
    """See the module."""

    def __init__(self, before: Callable[[str, str], None], kind: str) -> None:
        self.before = before
        self.kind = kind
        self._inner = LocalFileSystem()

    def get_type_name(self) -> str:
        return self.kind

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        return self._inner.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        found = self._inner.get_file_info(selector)
        return [one for one in found if not one.path.endswith(".upload")]

    def create_dir(self, path: str, recursive: bool) -> None:
        self.before("create_dir", path)
        self._inner.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self.before("delete_dir", path)
        # In two steps, as a folder goes file by file
        for one in sorted(Path(path).rglob("*"))[::2]:
            if one.is_file():
                one.unlink()
        self.before("delete_dir", path)
        self._inner.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self.before("delete_file", path)
        self._inner.delete_file(path)

    def move(self, source: str, target: str) -> None:
        assert self.kind in {"local", "hdfs"}, "an object store cannot rename"
        self.before("move", target)
        if self.kind == "hdfs" and Path(target).exists():
            raise OSError(f"rename '{source}' to '{target}' failed")
        self._inner.move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        self.before("copy_file", target)
        self._make_room(target)
        hidden = _upload(target)
        self._inner.copy_file(source, hidden)
        Path(hidden).replace(target)

    def open_input_stream(self, path: str) -> Any:
        return self._inner.open_input_stream(path)

    def open_input_file(self, path: str) -> Any:
        return self._inner.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self.before("open", path)
        self._make_room(path)
        return pa.PythonFile(_Written(self, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError

    def _make_room(self, path: str) -> None:
        if self.kind == "objects":  # where folders are parts of names
            Path(path).parent.mkdir(parents=True, exist_ok=True)
