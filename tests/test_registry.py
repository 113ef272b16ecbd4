from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, ClassVar

import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore
from kafka_remote_fetchers.memory import MemoryFetcher
from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client import registry
from kafka_remote_client.config import RemoteFetchConfig, split_config
from kafka_remote_client.errors import ConfigurationError, MissingExtraError
from kafka_remote_client.plugin import DeclaresSettings
from kafka_remote_client.registry import (
    FETCHERS,
    SIGNERS,
    STORES,
    check_settings,
    check_store_options,
    fetcher_names,
    load_fetcher,
    load_store,
    plugin_names,
)

PLUGIN = """
import missing_sdk_if_asked  # MARK
class TapeFetcher:
    def configure(self, configs):
        self.configs = dict(configs)
    def fetch_log_segment(self, remote_log_segment_metadata, start_position, end_position):
        raise NotImplementedError
    def close(self):
        pass
class Greedy(TapeFetcher):
    def __init__(self, something):
        pass
class NotAFetcher:
    pass
class TapeStore:
    def __init__(self, url, options):
        self.url = url
        self.options = options
instance = TapeFetcher()
"""

ENTRY_POINTS = """
[kafka_remote_client.fetchers]
tape = tape_plugin:TapeFetcher
greedy = tape_plugin:Greedy
shapeless = tape_plugin:NotAFetcher
object = tape_plugin:instance
nothing = tape_plugin:Absent
gone = tape_plugin_gone.inner:TapeFetcher
needy = tape_plugin_needy:TapeFetcher
explicit = tape_plugin_needy:TapeFetcher [sdk]
dashed = tape_plugin_needy:TapeFetcher [tape-sdk, other]
plain = tape_plugin_needy:TapeFetcher
broken = tape_plugin_broken:TapeFetcher
memory = tape_plugin:TapeFetcher

[kafka_remote_client.stores]
tape = tape_plugin:TapeStore
"""

METADATA = """Metadata-Version: 2.1
Name: tape-plugin
Version: 1.0
Provides-Extra: needy
"""


def register(directory: Path) -> None:
    """Writes what pip writes about a distribution."""
    info = directory / "tape_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution as pip installs it."""
    register(tmp_path)
    source = PLUGIN.replace("import missing_sdk_if_asked  # MARK", "")
    (tmp_path / "tape_plugin.py").write_text(source)
    (tmp_path / "tape_plugin_needy.py").write_text(PLUGIN)
    (tmp_path / "tape_plugin_broken.py").write_text("raise RuntimeError('secret')")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget()


def forget() -> None:
    for name in [name for name in sys.modules if name.startswith(("tape_plugin", "side_loaded"))]:
        del sys.modules[name]


def load(name: object, **settings: object) -> object:
    options = {key.replace("_", "."): value for key, value in settings.items()}
    return load_fetcher(split_config({"remote.storage.fetcher.class": name, **options})[0])


def test_our_own_fetchers_and_stores_are_registered() -> None:
    assert {"local", "memory", "presigned"} <= set(fetcher_names())
    assert "file" in plugin_names(STORES)


def test_loads_by_name_and_configures() -> None:
    fetcher = load("presigned", **{"remote.storage.fetcher.allowed.hosts": "store.example"})
    assert isinstance(fetcher, PresignedFetcher)
    fetcher.close()


def test_an_exception_of_configure_reaches_the_user() -> None:
    with pytest.raises(ConfigurationError, match=r"local\.root"):
        load("local")


def test_each_load_makes_a_new_fetcher() -> None:
    first, second = load("memory"), load("memory")
    assert isinstance(first, MemoryFetcher)
    assert first is not second


def test_an_installed_distribution_adds_a_fetcher_and_a_store(installed: Path) -> None:
    assert "tape" in fetcher_names()
    fetcher = load("tape", **{"remote.storage.fetcher.tape.drive": 3})
    assert type(fetcher).__name__ == "TapeFetcher"
    assert fetcher.configs["remote.storage.fetcher.tape.drive"] == 3
    assert fetcher.configs["fetch.remote.read.timeout.ms"] == 5000
    store = load_store("tape://library/1", {"tape.drive": 3})
    assert (store.url, store.options) == ("tape://library/1", {"tape.drive": 3})
    assert load_store("tape://library/1").options == {}


def test_a_plugin_is_found_in_the_process_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    os.utime(tmp_path, ns=(0, 0))  # its next change gets another time, however coarse the file system's clock is
    assert "tape" not in fetcher_names()
    register(tmp_path)
    assert "tape" in fetcher_names()
    assert "tape" in plugin_names(STORES)


def test_distributions_are_read_once_for_each_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def counted(**wanted: str) -> EntryPoints:
        read.append(wanted)
        return entry_points(**wanted)

    monkeypatch.setattr(registry, "entry_points", counted)
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(3):
        load("memory")
        assert "memory" in fetcher_names()
        assert "file" in plugin_names(STORES)
    assert read == [{"group": FETCHERS}, {"group": STORES}]


def test_plugins_are_imported_on_demand(installed: Path) -> None:
    fetcher_names()
    load("presigned", **{"remote.storage.fetcher.allowed.hosts": "store.example"}).close()
    assert "tape_plugin" not in sys.modules


def test_a_misspelled_setting_names_the_closest_one() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load("presigned", **{"remote.storage.fetcher.alowed.hosts": "store.example"})
    assert str(caught.value) == (
        "unknown setting of fetcher 'presigned': remote.storage.fetcher.alowed.hosts; "
        "did you mean remote.storage.fetcher.allowed.hosts?"
    )


def test_a_setting_unlike_any_other_has_no_suggestion() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown setting of fetcher 'memory': remote\.storage\.fetcher\.q$"):
        load("memory", **{"remote.storage.fetcher.q": 1})


def test_a_store_beside_the_fetcher_has_its_own_settings() -> None:
    class Store:
        settings: ClassVar[frozenset[str]] = frozenset({"remote.storage.fetcher.s3.region"})

    config = split_config({"remote.storage.fetcher.s3.region": "x", "remote.storage.fetcher.class": "memory"})[0]
    store: Any = Store()
    load_fetcher(config, store).close()
    check_settings(config, store)
    with pytest.raises(ConfigurationError, match=r"s3\.region"):
        load_fetcher(config)
    with pytest.raises(ConfigurationError, match="unknown setting of the store: remote"):
        check_settings(split_config({"remote.storage.fetcher.s3.zone": "x"})[0], store)


def test_a_store_that_declares_nothing_accepts_every_setting() -> None:
    config = split_config({"remote.storage.fetcher.s3.region": "x", "remote.storage.fetcher.class": "memory"})[0]
    store: Any = object()
    load_fetcher(config, store).close()


class _Reader:
    settings: ClassVar[frozenset[str]] = frozenset({"remote.storage.fetcher.s3.region"})


def test_an_option_that_no_plugin_of_a_store_reads_is_refused() -> None:
    check_store_options({"s3.region": "x"}, _Reader())
    check_store_options(None, _Reader())
    with pytest.raises(ConfigurationError, match=r"of the store: s3\.regoin; did you mean s3\.region\?"):
        check_store_options({"s3.regoin": "x"}, _Reader())
    check_store_options({"s3.regoin": "x"}, _Reader(), object())  # a signer without declarations may read it


OURS = [entry for group in (FETCHERS, STORES, SIGNERS) for entry in entry_points(group=group)]


@pytest.mark.parametrize("entry", OURS, ids=lambda entry: f"{entry.group}-{entry.name}")
def test_every_plugin_of_ours_declares_its_settings(entry: EntryPoint) -> None:
    assert isinstance(entry.load(), DeclaresSettings)


def test_an_unknown_class_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown fetcher 'presinged'; known fetchers: .*local, memory, .*presigned"):
        load("presinged")


def test_a_missing_class_setting_lists_the_names() -> None:
    with pytest.raises(ConfigurationError, match=r"is not set; known fetchers: .*presigned"):
        load(None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shapeless", "is not a class with configure"),
        ("object", "is not a class with configure"),
        ("nothing", "failed to load: AttributeError"),
        ("gone", "module tape_plugin_gone.inner is not installed"),
        ("broken", "failed to load: RuntimeError$"),
        ("greedy", "constructor must accept"),
        ("memory", "several installed plugins are named memory"),
    ],
)
def test_a_registered_class_that_is_not_a_fetcher_is_refused(installed: Path, name: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        load(name)
    assert not isinstance(caught.value, MissingExtraError)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("needy", "pip install 'tape-plugin[needy]'"),
        ("explicit", "pip install 'tape-plugin[sdk]'"),
        ("dashed", "pip install 'tape-plugin[tape-sdk,other]'"),
        ("plain", "pip install missing_sdk_if_asked"),
    ],
)
def test_a_missing_extra_is_an_error_with_the_pip_command(installed: Path, name: str, command: str) -> None:
    with pytest.raises(MissingExtraError, match=r"needs missing_sdk_if_asked: pip install") as caught:
        load(name)
    assert str(caught.value).endswith(command)


def test_a_dotted_name_needs_to_be_allowed(installed: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nor listed in remote\.storage\.fetcher\.allowed\.classes"):
        load("tape_plugin:TapeFetcher")
    assert "tape_plugin" not in sys.modules
    allowed = {"remote.storage.fetcher.allowed.classes": "other:Class, tape_plugin:TapeFetcher"}
    assert type(load("tape_plugin:TapeFetcher", **allowed)).__name__ == "TapeFetcher"


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("tape_nowhere:X", "module tape_nowhere", ConfigurationError),
        ("tape_plugin.inner:X", "does not exist|is not a package", ConfigurationError),
        ("tape_plugin:Absent", "module tape_plugin has no class Absent", ConfigurationError),
        ("tape_plugin:NotAFetcher", "is not a class with", ConfigurationError),
        ("tape_plugin_needy:TapeFetcher", "pip install missing_sdk_if_asked", MissingExtraError),
        ("tape_plugin_broken:TapeFetcher", "failed to load: RuntimeError$", ConfigurationError),
    ],
)
def test_an_allowed_dotted_name_may_not_exist(installed: Path, name: str, message: str, kind: type[ConfigurationError]) -> None:
    with pytest.raises(kind, match=message):
        load(name, **{"remote.storage.fetcher.allowed.classes": name})


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "builtins:object",
        "pickle:Unpickler",
        "kafka_remote_fetchers.presigned:PresignedFetcher",
        "os",
        "os.system",
        ":",
        "os:",
        ":system",
        "os:system:x",
        "os:__class__.__mro__",
        "../evil:Fetcher",
        "/tmp/evil.py:Fetcher",
        "file:///tmp/evil.py",
        "http://evil.example/x:Fetcher",
        "evil\n:Fetcher",
        "os:system\0",
        " presigned",
        "PRESIGNED",
        "presigned;os:system",
        "__import__('os'):system",
        "ｏｓ:system",  # noqa: RUF001 - looks like os
        "x" * 100_000,
        "a." * 50_000 + "a:b",
    ],
)
def test_s16_hostile_class_names_are_refused_by_default(name: str) -> None:
    before = set(sys.modules)
    with pytest.raises(ConfigurationError) as caught:
        load(name)
    assert len(str(caught.value)) < 600
    assert set(sys.modules) - before <= {"re._parser"}


def test_s16_a_class_path_needs_its_opt_in(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"fetch\.remote\.allow\.class\.path=true"):
        load("side_loaded:TapeFetcher", **{"remote.storage.fetcher.class.path": str(tmp_path)})


def test_s16_a_class_path_needs_its_opt_in_for_ready_made_settings() -> None:
    with pytest.raises(ConfigurationError, match=r"fetch\.remote\.allow\.class\.path=true"):
        load_fetcher(RemoteFetchConfig(fetcher_class="memory", fetcher_class_path="/tmp"))


def test_a_class_path_loads_from_that_directory(tmp_path: Path) -> None:
    (tmp_path / "side_loaded.py").write_text(PLUGIN.replace("import missing_sdk_if_asked  # MARK", ""))
    before = list(sys.path)
    settings = {"remote.storage.fetcher.class.path": str(tmp_path), "fetch.remote.allow.class.path": "true"}
    try:
        fetcher = load("side_loaded:TapeFetcher", **settings)
        assert Path(sys.modules["side_loaded"].__file__).parent == tmp_path
    finally:
        forget()
    assert type(fetcher).__name__ == "TapeFetcher"
    assert sys.path == before


@pytest.mark.parametrize("name", ["json:JSONDecoder", "sys:path"])
def test_a_class_path_loads_from_no_other_directory(tmp_path: Path, name: str) -> None:
    settings = {"remote.storage.fetcher.class.path": str(tmp_path), "fetch.remote.allow.class.path": True}
    with pytest.raises(ConfigurationError, match="was loaded from another directory"):
        load(name, **settings)


def test_loads_a_store_by_scheme(tmp_path: Path) -> None:
    store = load_store(f"file://{tmp_path}")
    assert isinstance(store, DirectoryStore)


def test_a_path_instead_of_a_store_url_is_named_as_such() -> None:
    with pytest.raises(ConfigurationError, match=r"s3://, .*; a directory is file:///DIR$"):
        load_store("/tmp/tier")


@pytest.mark.parametrize("url", ["", "s3", "gopher://user:secret@host/x?sig=secret", "FILE:///tmp", "file:/tmp"])
def test_an_unknown_store_is_an_error_without_its_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must start with one of: .*file://") as caught:
        load_store(url)
    assert "secret" not in str(caught.value)
