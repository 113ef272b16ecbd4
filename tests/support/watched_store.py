"""A relay in front of a real store that records each answer together with the store's original answer."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from tests.faults.observed import Observation, Observed
from tests.support.held_origin import HeldOrigin

__all__ = ["WatchedStore"]


class WatchedStore(HeldOrigin):
    """``truth``: the objects by ``/bucket/key``. Reads of segments' logs are noted, and those of one version of a log are held.

    A consumer requests the version that its location names. A location look-up reads batch headers of any version.
    """

    def __init__(self, authority: str, truth: Mapping[str, bytes]) -> None:
        super().__init__(authority)
        self.authority = self.url.partition("://")[2]
        self.observed = Observed()
        self._truth = {path: data for path, data in truth.items() if path.endswith(".log")}

    def changed_statuses(self) -> set[int]:
        """The statuses of answers that were not the true ones."""
        return {one.given[0] for one in self.observed.changes() if isinstance(one.given, tuple)}

    def _is_held(self, path: str, headers: Mapping[str, str]) -> bool:
        of_a_version = "if-match" in {name.lower() for name in headers}
        return of_a_version and _object(path) in self._truth and super()._is_held(path, headers)

    def _passed_on(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
        status, given, body = super()._passed_on(method, path, headers)
        data, ranged = self._truth.get(_object(path)), headers.get("Range") or headers.get("range")
        if data is not None and ranged is not None:
            first, _, last = ranged.removeprefix("bytes=").partition("-")
            true = 206, data[int(first) : int(last) + 1]
            self.observed.add(Observation("store", f"{method} {_object(path)} {ranged}", true, (status, body)))
        return status, given, body


def _object(path: str) -> str:
    return unquote(path.partition("?")[0])
