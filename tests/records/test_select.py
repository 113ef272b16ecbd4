from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys

import pytest

from kafka_remote_client.records import _select
from kafka_remote_client.records.faults import Fault

PRINT_KERNEL = "from kafka_remote_client.records import _select; print(_select.KERNEL)"
HIDE_KERNEL = (
    "import sys, logging; logging.basicConfig(level='INFO'); sys.modules['kafka_remote_client.records._kernel'] = None; "
)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )


@pytest.mark.skipif(os.environ.get("KAFKA_REMOTE_CLIENT_PURE") == "1", reason="this run asks for pure Python")
def test_kernel_is_built_and_used() -> None:
    assert _select.KERNEL == "compiled"


def test_environment_forces_pure_python() -> None:
    assert run(PRINT_KERNEL, KAFKA_REMOTE_CLIENT_PURE="1").stdout == "pure\n"


def load_again() -> object:
    """Loads the module once more under another name; the one in use does not change."""
    spec = importlib.util.spec_from_file_location("kafka_remote_client.records._select_again", _select.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_choice_is_made_at_import(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("KAFKA_REMOTE_CLIENT_PURE", "1")
    assert load_again().KERNEL == "pure"
    assert not caplog.records
    monkeypatch.setenv("KAFKA_REMOTE_CLIENT_PURE", "0")
    monkeypatch.setitem(sys.modules, "kafka_remote_client.records._kernel", None)
    monkeypatch.delattr("kafka_remote_client.records._kernel", raising=False)
    with caplog.at_level("INFO"):
        assert load_again().KERNEL == "pure"
    assert len(caplog.records) == 1


def test_a_missing_kernel_is_logged_once_and_python_is_used() -> None:
    done = run(HIDE_KERNEL + PRINT_KERNEL, KAFKA_REMOTE_CLIENT_PURE="")
    assert done.stdout == "pure\n"
    assert done.stderr.count("compiled record kernel is not installed") == 1


def test_kernel_and_python_number_faults_alike() -> None:
    kernel = pytest.importorskip("kafka_remote_client.records._kernel")
    for name, number in kernel.FAULTS.items():
        assert Fault[name] == number


def test_every_fault_has_a_text() -> None:
    from kafka_remote_client.records.faults import fault_error

    texts = {str(fault_error(fault, 5, 7)) for fault in Fault if fault}
    assert len(texts) == len(Fault) - 1


def test_the_logger_is_this_packages() -> None:
    assert logging.getLogger(_select.__name__).name.startswith("kafka_remote_client.records")


@pytest.mark.parametrize("hardware", [True, False])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 255, 767, 768, 769, 1000, 6143, 6144, 6145, 20000])
def test_kernel_checksum_equals_the_library(size: int, hardware: bool) -> None:
    import crc32c

    kernel = pytest.importorskip("kafka_remote_client.records._kernel")
    data = bytes(i * 7 + (i >> 8) & 0xFF for i in range(size + 3))
    for start in range(3):
        part = memoryview(data)[start : start + size]
        assert kernel.crc32c(part, hardware) == crc32c.crc32c(part)
