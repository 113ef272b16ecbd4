"""The real parts of the tests: what is on PATH, Kafka's jars from Maven, our own small Java classes.

All parts are stored in ``.cache/`` of the checkout, once, under a file lock::

    .cache/m2/                     Maven's own repository
    .cache/kafka/<digest of pom>/  the broker's jars
    .cache/java/<digest>.jar       tests/java/*.java, compiled against those jars
    .cache/java/<digest>.jsa       Kafka's classes as Java loads them (tests/support/class_archive.py)

``python -m tests.support.artifacts`` makes the first three; the fixtures do the same when they need it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.support.processes import process_group

__all__ = [
    "CACHE",
    "NO_FETCH_VARIABLE",
    "SHORT_LIVED",
    "MissingPartError",
    "archived_classes",
    "class_archive",
    "class_path",
    "file_lock",
    "jars_of",
    "java",
    "kafka_jars",
    "kafka_tool",
    "our_classes",
    "run_or_missing",
]

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
POM = ROOT / "tests" / "support" / "pom.xml"
JAVA_SOURCES = ROOT / "tests" / "java"
NO_FETCH_VARIABLE = "KAFKA_REMOTE_TEST_NO_FETCH"
SHORT_LIVED = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
"""Options of Java for tests, whose processes live for minutes at most. The second compiler needs a third of the CPU time of a
broker, and more than half of that of a Spark session of a few queries. The verification of published classes is a sixth of a
start of Spark. Benchmarks use Java's defaults, as users do.
"""
_OLDEST_JDK = 17
_TEST_CLASSES = {"4.4.0": ("4.3.1", JAVA_SOURCES / "kafka44")}
"""For a version without test classes in Maven: the version whose test classes are used instead, and the additional sources
that they need. The test classes have LocalTieredStorage."""


class MissingPartError(RuntimeError):
    """A real part is not available on this machine: the tests that need it skip, and fail if CI=true."""


@contextmanager
def file_lock(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Holds an advisory lock on ``path``; ``shared`` ones exclude exclusive ones only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def java(tool: str = "java") -> str:
    """The path of a JDK's tool. Raises MissingPartError unless a JDK >= 17 is on PATH."""
    found = shutil.which(tool)
    if found is None:
        raise MissingPartError(f"{tool} is not on PATH (a JDK >= {_OLDEST_JDK} is needed)")
    if _major_version(found) < _OLDEST_JDK:
        raise MissingPartError(f"{tool} on PATH is not of a JDK >= {_OLDEST_JDK}")
    return found


def _major_version(tool: str) -> int:
    """0 if the tool does not say it."""
    version = re.search(r"(\d+)\.", _version_text(tool))
    return int(version.group(1)) if version else 0


@cache
def _version_text(tool: str) -> str:
    """Cached, because a process asks for each of its Java processes."""
    said = subprocess.run([tool, "-version"], capture_output=True, text=True, check=False, timeout=60)
    return said.stderr + said.stdout


def kafka_jars(version: str = "") -> Path:
    """Returns the directory with the broker's jars, of the pom's version by default. Maven downloads them if necessary."""
    options = [f"-Dkafka.version={version}"] if version else []
    if version in _TEST_CLASSES:
        options.append(f"-Dkafka.test.version={_TEST_CLASSES[version][0]}")
    return jars_of(POM, CACHE / "kafka", "Maven cannot fetch Kafka's jars", *options)


def jars_of(pom: Path, directory: Path, complaint: str, *options: str) -> Path:
    """A directory in ``directory`` with what ``pom`` depends on, fetched by Maven once. Raises MissingPartError.

    ``options`` are Maven's, for other properties than the pom's.
    """
    target = directory / hashlib.sha256(pom.read_bytes() + "".join(options).encode()).hexdigest()[:12]
    with file_lock(directory.with_name(f"{directory.name}.lock")):
        if not target.is_dir():
            maven = shutil.which("mvn")
            if maven is None:
                raise MissingPartError("mvn is not on PATH")
            unfinished = target.with_suffix(".tmp")
            shutil.rmtree(unfinished, ignore_errors=True)
            command = [
                *(maven, "--quiet", "--batch-mode", "--file", str(pom), "dependency:copy-dependencies"),
                *(f"-DoutputDirectory={unfinished}", f"-Dmaven.repo.local={CACHE / 'm2'}", *options),
            ]
            run_or_missing(command, complaint)
            unfinished.rename(target)
    return target


def our_classes(version: str = "") -> Path:
    """The jar of the compiled classes of tests/java; for another version than the pom's, those that it needs.

    It is a jar because Java archives no classes (:func:`class_archive`) if there is a directory on the class path.
    """
    jars = kafka_jars(version)
    sources = sorted((_TEST_CLASSES[version][1] if version else JAVA_SOURCES).glob("*.java"))
    digest = hashlib.sha256(jars.name.encode() + b"".join(source.read_bytes() for source in sources))
    target = CACHE / "java" / f"{digest.hexdigest()[:12]}.jar"
    with file_lock(CACHE / "java.lock"):
        if not target.exists():
            classes = target.with_suffix(".tmp")
            shutil.rmtree(classes, ignore_errors=True)
            classes.mkdir(parents=True)
            command = [java("javac"), "-proc:none", "-cp", f"{jars}/*", "-d", str(classes), *map(str, sources)]
            run_or_missing(command, "javac refuses tests/java")
            packed = shutil.make_archive(str(target.with_suffix("")), "zip", classes)
            shutil.rmtree(classes)
            Path(packed).rename(target)
    return target


def class_path(version: str = "") -> str:
    """Kafka's jars and our classes as one class path. For another version than the pom's, the classes that it needs."""
    jars = f"{kafka_jars(version)}/*"
    return f"{our_classes(version)}:{jars}" if not version or version in _TEST_CLASSES else jars


def class_archive() -> Path:
    """Where the archive of the classes on the default class path is, for the java on PATH; it may not exist yet.

    A copied checkout has another one: Java refuses an archive that was made with other paths.
    """
    classes = our_classes()
    digest = hashlib.sha256(f"{classes}:{kafka_jars()}:{_version_text(java())}".encode())
    return classes.with_name(f"{digest.hexdigest()[:12]}.jsa")


def archived_classes(version: str = "") -> tuple[str, ...]:
    """Options of Java that load the archived classes; none for another version than the pom's, or without an archive.

    Java ignores an archive that does not fit its class path.
    """
    return (f"-XX:SharedArchiveFile={class_archive()}",) if not version and class_archive().exists() else ()


def kafka_tool(main_class: str, *arguments: str, version: str = "") -> list[str]:
    """The command of one of Kafka's tools, or of a class of tests/java. Raises MissingPartError as :func:`java`."""
    options = ["-Xmx256m", *SHORT_LIVED, *archived_classes(version), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return [java(), *options, "-cp", class_path(version), main_class, *arguments]


def run_or_missing(
    command: Sequence[str], complaint: str, *, seconds: float = 600, environment: Mapping[str, str] | None = None
) -> None:
    """Runs a command. Raises MissingPartError with the end of its output when it fails or takes longer than ``seconds``.

    A command that is too slow is killed with everything that it started, because a compiler must not run beside the tests.
    After the run has stopped downloading parts (``NO_FETCH_VARIABLE``), other parts are missing.
    """
    if os.environ.get(NO_FETCH_VARIABLE):
        raise MissingPartError(f"{complaint}: timed out waiting for it")
    try:
        with process_group(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise MissingPartError(f"{complaint}: not done after {seconds:g} s") from None
    if process.returncode:
        raise MissingPartError(f"{complaint}: {output.strip()[-2000:]}")


if __name__ == "__main__":
    print(class_path().replace(str(ROOT), "."))
