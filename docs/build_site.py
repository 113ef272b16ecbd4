"""Builds the documentation site into ``build/site/html``: ``make site``. Any warning fails the build.

Pages link to README.md, examples, sources and directories beside ``docs/``. The build therefore copies every page and every
file that a page links to into ``build/site/source``, at its own relative path, and MkDocs reads that directory. Linked source
files become pages, a link to a directory leads to its README.md, and pages with a diagram load Mermaid from the site itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

__all__ = ["BUILD", "build", "staged"]

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "site"
MERMAID = "@mermaid-js/tiny@12.0.0"
MERMAID_SHA512 = "ZW9YXy+3tSLPscBT+NnQO0K0qYH7BGES5nExl6Snoygey7xd2N0cO7Nq30N5k/u7gIeYoCrldyVy+VTCMWrNDQ=="
_CACHE = ROOT / ".cache" / "mermaid"
_LINK = re.compile(r"(?P<before>\]\()(?!https?://|#|mailto:)(?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")
_DIRECTIVE = re.compile(r"^<!-- (::: [\w.]+) -->$", re.MULTILINE)
_SOURCES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".properties": "properties", ".service": "ini"}
_CHANGES = Path("docs/changes/README.md")
_DECISIONS = Path("docs/decisions/README.md")
_SCRIPT = Path("assets/mermaid.js")
_CSS = """\
.md-grid { max-width: 76rem; }
.md-typeset table:not([class]) { font-size: .64rem; }
"""


def staged(root: Path = ROOT) -> dict[Path, str | bytes]:
    """Returns the files that MkDocs reads, by path: pages, linked sources as pages, and other linked files as they are.

    Raises FileNotFoundError for a link that leads to no file.
    """
    files: dict[Path, str | bytes] = {}
    pages = [Path("README.md"), *(path.relative_to(root) for path in sorted((root / "docs").rglob("*.md")))]
    waiting = [page for page in pages if page.parent != Path("docs/changes") or page.name == "README.md"]
    while waiting:
        path = waiting.pop()
        if _page_of(path) in files:
            continue
        if path.suffix == ".md":
            text = (root / path).read_text(encoding="utf-8")
            files[path] = _with_links(text, path, root, waiting.append) + _script(text, path)
        elif path.suffix in _SOURCES or path.name == "Containerfile":
            files[_page_of(path)] = _source_page(path, (root / path).read_text(encoding="utf-8"))
        else:
            files[path] = (root / path).read_bytes()
    files[_CHANGES] = _changes(root)
    files[_DECISIONS] = "\n".join([(root / _DECISIONS).read_text(encoding="utf-8"), _decisions(root)])
    files[Path("assets/site.css")] = _CSS
    return files


def _page_of(path: Path) -> Path:
    """Where the site has a file: a source has a page of its own."""
    is_source = path.suffix in _SOURCES or path.name == "Containerfile"
    return path.with_name(f"{path.name}.md") if is_source else path


def _source_page(path: Path, text: str) -> str:
    return f"# {path.name}\n\n`{path.as_posix()}`\n\n````{_SOURCES.get(path.suffix, 'text')}\n{text.rstrip()}\n````\n"


def _with_links(text: str, page: Path, root: Path, linked: Callable[[Path], None]) -> str:
    """Returns a page with the links of the site. Calls ``linked`` with each file that it links to."""

    def changed(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link["target"]))
        if (root / target).is_dir():
            target /= "README.md"
        if not (root / target).is_file():
            raise FileNotFoundError(f"{page}: the link {link['target']} leads to no file")
        linked(target)
        there = os.path.relpath(_page_of(target), page.parent)
        return f"{link['before']}{there}{link['anchor'] or ''})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [_DIRECTIVE.sub(r"\1", _LINK.sub(changed, part)) for part in parts[::2]]
    return "".join(parts)


def _script(text: str, page: Path) -> str:
    """The script for the diagrams of a page, if it has some. Without it the theme requests one from another host."""
    if "\n```mermaid\n" not in text:
        return ""
    return f'\n<script src="{os.path.relpath(_SCRIPT, page.parent)}"></script>\n'


def _changes(root: Path) -> str:
    """All fragments as one page, by kind."""
    lines = ["# Changes", "", "What the next release changes, for users."]
    fragments = [path for path in sorted((root / "docs" / "changes").glob("*.md")) if path.name != "README.md"]
    for kind in ("security", "removed", "changed", "fixed", "added"):
        lines += ["", f"## {kind.capitalize()}"]
        for path in fragments:
            if path.name.split(".")[1] == kind:
                lines += ["", f"- {' '.join(path.read_text(encoding='utf-8').split())}"]
    return "\n".join(lines) + "\n"


def _decisions(root: Path) -> str:
    """A list of all records, with links."""
    records = sorted((root / "docs" / "decisions").glob("0*.md"))
    titles = [(path.name, path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")) for path in records]
    return "".join(f"- [{title.replace('. ', ': ', 1)}]({name})\n" for name, title in titles)


def mermaid() -> Path:
    """Returns the script that draws diagrams, from npm. It is fetched once and checked against its digest.

    Raises RuntimeError if npm cannot fetch it, or if it is another file.
    """
    script = _CACHE / "package" / "dist" / "mermaid.tiny.js"
    if not script.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "npm_config_cache": str(_CACHE / "npm")}
        npm = shutil.which("npm")
        if npm is None:
            raise RuntimeError("npm is not on PATH: install Node.js, which brings the script for diagrams")
        command = [npm, "pack", "--silent", MERMAID]
        done = subprocess.run(command, cwd=_CACHE, env=environment, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            raise RuntimeError(f"npm cannot fetch {MERMAID}: {done.stderr.strip()}")
        archive = _CACHE / done.stdout.split()[-1]
        digest = b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if digest != MERMAID_SHA512:
            raise RuntimeError(f"{archive.name} has the SHA-512 {digest}, expected {MERMAID_SHA512}")
        with tarfile.open(archive) as package:
            package.extractall(_CACHE, filter="data")
        shutil.rmtree(_CACHE / "npm", ignore_errors=True)
    return script


def build(directory: Path = BUILD) -> Path:
    """Builds the site below a directory and returns the directory of its HTML. Raises CalledProcessError for any warning."""
    source, html = directory / "source", directory / "html"
    shutil.rmtree(directory, ignore_errors=True)
    for path, content in staged().items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(content.encode() if isinstance(content, str) else content)
    shutil.copyfile(mermaid(), source / _SCRIPT)
    config = ROOT / "docs" / "mkdocs.yml"
    environment = {**os.environ, "SITE_SOURCE": str(source), "NO_MKDOCS_2_WARNING": "1"}  # decision 12 says it
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir", str(html)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdin=subprocess.DEVNULL)
    return html


if __name__ == "__main__":
    try:
        print(build().relative_to(ROOT))
    except (RuntimeError, FileNotFoundError, subprocess.CalledProcessError) as error:
        sys.exit(f"cannot build the site: {error}")
