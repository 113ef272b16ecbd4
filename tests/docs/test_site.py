"""The documentation site: it builds without a warning, and its pages load in a browser without an error or another host."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from docs import build_site
from tests.docs.documents import ROOT
from tests.support.browser import BROWSER
from tests.support.processes import end_group, process_group
from tests.support.run_directory import leftovers

pytestmark = pytest.mark.xdist_group("site")

_CONTROL = "all pages were loaded"
_PAGES = (
    "index.html",
    "docs/getting-started.html",
    "docs/roles.html",
    "docs/concepts.html",
    "docs/troubleshooting.html",
    "docs/performance.html",
    "docs/comparison.html",
    "docs/api.html",
    "examples/index.html",
    "examples/replay_from_time.py.html",
)
# Loads one page after the other in a frame, as a reader would, and posts what it finds to the server.
_LOADER = """<!doctype html><link rel="icon" href="data:,"><body><script>
const pages = PAGES, found = {};
const drawn = page => !page.querySelector("pre.mermaid") || new Promise(done => new MutationObserver((_, watch) => {
  if (!page.querySelector("pre.mermaid")) { watch.disconnect(); done(); }
}).observe(page, {childList: true, subtree: true}));
(async () => {
  for (const name of pages) {
    const frame = document.createElement("iframe");
    frame.src = name;
    const loaded = new Promise(done => frame.onload = done);
    document.body.append(frame);
    await loaded;
    const page = frame.contentDocument;
    await drawn(page);
    found[name] = {
      title: page.title, diagrams: page.querySelectorAll("div.mermaid").length,
      images: [...page.images].filter(image => image.naturalWidth > 0).length,
      hosts: [...new Set(frame.contentWindow.performance.getEntriesByType("resource").map(entry => new URL(entry.name).host))],
    };
    frame.remove();
  }
  await fetch("found", {method: "POST", body: JSON.stringify(found)});
  console.error("CONTROL");
})();
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the site. A warning fails it."""
    try:
        build_site.mermaid()
    except RuntimeError as error:
        pytest.skip(f"no script for diagrams: {error}")
    return build_site.build(tmp_path_factory.mktemp("site"))


class _Server(ThreadingHTTPServer):
    """Serves the site, and in it the page that loads the others; ``found`` is what that page posted."""

    found: str = ""


class _Handler(SimpleHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        self.server.found = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(site: Path) -> Iterator[_Server]:
    loader = _LOADER.replace("PAGES", json.dumps(_PAGES), 1).replace("CONTROL", _CONTROL)
    (site / "loader.html").write_text(loader, encoding="utf-8")
    with _Server(("127.0.0.1", 0), partial(_Handler, directory=str(site))) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def _page(root: Path, text: str) -> None:
    for folder in ("docs/changes", "docs/decisions", "examples"):
        (root / folder).mkdir(parents=True)
        (root / folder / "README.md").write_text(f"# {folder}\n")
    (root / "README.md").write_text("# Home\n")
    (root / "docs" / "page.md").write_text(text)


def test_site_has_a_page_for_each_document(site: Path) -> None:
    documents = list((ROOT / "docs").glob("*.md"))
    assert [path.name for path in documents if not (site / "docs" / f"{path.stem}.html").exists()] == []


def test_site_documents_the_public_names(site: Path) -> None:
    text = (site / "docs" / "api.html").read_text(encoding="utf-8")
    for name in ("consumer.consumer.Consumer.consume_arrow", "plugin.RemoteStorageFetcher.fetch_log_segment"):
        assert f'id="kafka_remote_client.{name}"' in text


def test_linked_sources_and_directories_become_pages(tmp_path: Path) -> None:
    _page(tmp_path, "[code](../examples/run.py) [all](../examples#top)\n\n```text\n[x](missing.md)\n```\n")
    (tmp_path / "examples" / "run.py").write_text("print(1)\n")
    files = build_site.staged(tmp_path)
    page = files[Path("docs/page.md")]
    assert page == "[code](../examples/run.py.md) [all](../examples/README.md#top)\n\n```text\n[x](missing.md)\n```\n"
    assert "````python\nprint(1)\n````" in str(files[Path("examples/run.py.md")])
    assert Path("examples/README.md") in files


def test_other_linked_files_are_copied_as_they_are(tmp_path: Path) -> None:
    _page(tmp_path, "![plot](plot.svg) [site](https://example.com/a.md) [below](#below)\n")
    (tmp_path / "docs" / "plot.svg").write_bytes(b"<svg/>")
    files = build_site.staged(tmp_path)
    assert files[Path("docs/plot.svg")] == b"<svg/>"
    assert "(https://example.com/a.md) [below](#below)" in str(files[Path("docs/page.md")])


def test_only_pages_with_a_diagram_load_the_script(tmp_path: Path) -> None:
    _page(tmp_path, "# Page\n\n```mermaid\nflowchart LR\n```\n")
    files = build_site.staged(tmp_path)
    assert str(files[Path("docs/page.md")]).endswith('```\n\n<script src="../assets/mermaid.js"></script>\n')
    assert "<script" not in str(files[Path("README.md")])


def test_link_without_a_file_is_an_error(tmp_path: Path) -> None:
    _page(tmp_path, "[code](../examples/missing.py)\n")
    with pytest.raises(FileNotFoundError, match=r"docs/page.md: the link ../examples/missing.py"):
        build_site.staged(tmp_path)


def test_changes_and_decisions_are_listed(tmp_path: Path) -> None:
    _page(tmp_path, "# Page\n")
    (tmp_path / "docs/changes/speed.fixed.md").write_text("Reads\nare faster.\n")
    (tmp_path / "docs/decisions/0001-one.md").write_text("# 1. One wins\n")
    files = build_site.staged(tmp_path)
    assert "## Fixed\n\n- Reads are faster.\n" in str(files[Path("docs/changes/README.md")])
    assert "- [1: One wins](0001-one.md)\n" in str(files[Path("docs/decisions/README.md")])


def _console(url: str, profile: Path) -> list[str]:
    """Returns the lines of the browser's console up to the one that ends the test. Other host names do not resolve."""
    assert BROWSER is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={profile}"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0"]
    streams = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    lines = []
    with process_group([BROWSER, *options, url], env=os.environ | {"TMPDIR": leftovers()}, **streams) as process:
        late = threading.Timer(120, end_group, [process.pid])
        late.start()
        try:
            for line in process.stderr or ():
                if ":CONSOLE" in line:
                    lines.append(line)
                if _CONTROL in line:
                    break
        finally:
            late.cancel()
            end_group(process.pid)
    return lines


if BROWSER is not None:  # without one, the head of the report says that this test is missing

    def test_pages_load_in_a_browser_without_errors(server: _Server, tmp_path: Path) -> None:
        """A request to another host would be an error in the console, and so would a script or a diagram that fails."""
        address = f"127.0.0.1:{server.server_port}"
        console = _console(f"http://{address}/loader.html", tmp_path)
        assert len(console) == 1, console
        assert _CONTROL in console[0]
        found = json.loads(server.found)
        assert list(found) == list(_PAGES)
        assert {host for page in found.values() for host in page["hosts"]} == {address}
        assert [name for name, page in found.items() if not page["title"].endswith("kafka-remote-client")] == []
        assert found["docs/concepts.html"]["diagrams"] == 3
        assert found["docs/performance.html"]["images"] == 5
