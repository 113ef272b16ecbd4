"""The targets: the module of each, the product code that it tests, and how many of its inputs each run of the suite tries."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import attrs

__all__ = ["TARGETS", "FuzzTarget"]

_RECORDS = ("kafka_remote_client/errors.py", "kafka_remote_client/records")


@attrs.frozen
class FuzzTarget:
    """``module`` below this package, which is imported late: the fuzzer instruments what it imports.

    ``describes``: the product code, as :mod:`tests.support.ledger` has it. ``inputs`` of the suite take about six seconds.
    ``sanitized``: how many of them it tries on the kernel with sanitizers; none if the kernel takes no part.
    """

    name: str
    module: str
    describes: tuple[str, ...]
    inputs: int
    sanitized: int = 0

    def load(self) -> Callable[[bytes], None]:
        target: Callable[[bytes], None] = import_module(f"tests.fuzz.{self.module}").TARGETS[self.name]
        return target

    @property
    def instrumented(self) -> list[str]:
        """The product's modules and packages that the fuzzer watches."""
        modules = [path.removesuffix(".py").replace("/", ".") for path in self.describes]
        return ["kafka_remote_fetchers" if module == "fetchers" else module for module in modules]


def _record(name: str, inputs: int, sanitized: int) -> FuzzTarget:
    return FuzzTarget(name, "record_targets", _RECORDS, inputs, sanitized)


def _wire(name: str, inputs: int, *more: str) -> FuzzTarget:
    read = ("protocol", "errors.py", "location_metadata.py", "model.py", "wire.py", *more)
    return FuzzTarget(name, "wire_targets", tuple(f"kafka_remote_client/{path}" for path in read), inputs)


def _remote_log(name: str, inputs: int, *more: str) -> FuzzTarget:
    read = ("errors.py", "model.py", "wire.py", *more)
    return FuzzTarget(name, "remote_log_targets", tuple(f"kafka_remote_client/{path}" for path in read), inputs)


_AIVEN = "remote_log/aiven"
_SHIM = tuple(
    f"kafka_remote_client/{path}"
    for path in ("errors.py", "protocol", "wire.py", "shim/frames.py", "shim/request_pipeline.py", "shim/tagged_fetch.py")
)
_HTTP = ("fetchers", "kafka_remote_client/errors.py", "kafka_remote_client/plugin.py")
TARGETS = {
    target.name: target
    for target in (
        _record("any_bytes", 20_000, 1_500),
        _record("batch_v2", 20_000, 1_500),
        _record("record", 20_000, 1_500),
        _record("legacy_set", 15_000, 1_500),
        _record("legacy_inner", 12_000, 1_500),
        _record("gzip", 8_000, 1_000),
        _record("snappy", 15_000, 1_000),
        _record("lz4", 15_000, 1_000),
        _record("zstd", 12_000, 1_000),
        _record("control_record", 5_000, 300),
        _record("aborted_filter", 2_000, 300),
        _wire("fetch_response", 20_000),
        _wire("location_answer", 20_000, "location/answer.py", "location/leader_lists.py"),
        _wire("location_metadata", 20_000),
        _wire("fetch_request", 20_000, "shim/tagged_fetch.py"),
        FuzzTarget("shim_frames", "shim_target", _SHIM, 5_000),
        FuzzTarget("http_answer", "http_target", _HTTP, 5_000),
        _remote_log("metadata_record", 20_000, "remote_log/serde.py", "remote_log/events.py", f"{_AIVEN}/custom_metadata.py"),
        _remote_log("aiven_manifest", 10_000, f"{_AIVEN}/manifest.py", f"{_AIVEN}/chunk_index.py"),
        _remote_log("chunk_index", 10_000, f"{_AIVEN}/chunk_index.py"),
        _remote_log("chunk_table", 10_000, f"{_AIVEN}/chunk_table.py", f"{_AIVEN}/chunk_index.py"),
    )
}
