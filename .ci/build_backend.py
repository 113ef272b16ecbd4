"""The build backend of pyproject.toml: setuptools, with what this project does differently.

- On Windows the build stops with the reason. The product uses calls of POSIX.
- The sdist has the documents and the examples, and no tests. setuptools by itself takes ``tests/test*.py`` and no document.
- The long description has no relative links: the page of a package index has nothing beside it. With a URL ``Source`` in
  ``[project.urls]`` they become links to the files of the version's tag there, otherwise plain text.

References: PEP 517 (in-tree backends), setuptools "Extending or Customizing Setuptools".
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.egg_info import egg_info

__all__ = [
    "EggInfo",
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "index_page",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

if sys.platform == "win32":
    raise RuntimeError("kafka-remote-client does not support Windows: use Linux, macOS, or the Windows Subsystem for Linux")

_FOLDERS = ("docs", "examples")
_FILES = (".ci/build_backend.py", ".ci/constraints.txt")
"""What the sdist has besides the packages: this module, and the pins that an image of ``examples/deploy`` uses."""
_RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


class EggInfo(egg_info):
    """setuptools' command that writes the metadata and lists the files of the sdist."""

    def finalize_options(self) -> None:
        """Sets the long description."""
        super().finalize_options()
        metadata = self.distribution.metadata
        source = (metadata.project_urls or {}).get("Source")
        metadata.long_description = index_page(metadata.long_description or "", source, metadata.version)

    def find_sources(self) -> None:
        """Lists the files of the sdist."""
        super().find_sources()
        for folder in _FOLDERS:
            self.filelist.graft(folder)
        for file in _FILES:
            self.filelist.include(file)
        self.filelist.prune("tests")
        self.filelist.global_exclude("*.py[cod]")
        self.filelist.sort()
        self.filelist.remove_duplicates()
        listed = (file.replace("\\", "/") for file in self.filelist.files)
        Path(self.egg_info, "SOURCES.txt").write_text("\n".join(listed) + "\n")


def index_page(text: str, source: str | None, version: str) -> str:
    """Returns Markdown without relative links. ``source``: URL of the repository, whose tags are named ``v1.2.3``."""
    if source is None:
        return _RELATIVE_LINK.sub(r"\1", text)
    return _RELATIVE_LINK.sub(rf"[\1]({source.rstrip('/')}/blob/v{version}/\2)", text)
