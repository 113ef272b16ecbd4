"""One way in which something goes wrong, for some kinds of store: how to inject it, and its permitted effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kafka_remote_client.testing import Answer
from tests.faults.bench import Rig

__all__ = ["ALL", "HTTP", "ISOLATION", "Scenario", "Table", "answered"]

HTTP = ("presigned", "s3")
ALL = ("presigned", "s3", "local")
ISOLATION = ("read_committed", "read_uncommitted")

Inject = Callable[[Rig], object]


@attrs.frozen
class Scenario:
    """``faults``: the injected numbers of the registry. ``causes``: the permitted causes of fallbacks.

    Without ``faults`` it is a control: all answers are true. ``about``: the number of the unusual data that it reads, if any.
    ``heals``: the store is read to the tier's end without a fallback. Otherwise there must be one, unless ``may``.
    ``settings`` are the consumer's; ``isolation`` are the levels at which the fault changes an answer.
    """

    name: str
    faults: tuple[str, ...]
    inject: Inject
    about: str = ""
    kinds: tuple[str, ...] = HTTP
    isolation: tuple[str, ...] = ISOLATION
    stream: str = "mixed"
    causes: frozenset[str] = frozenset()
    heals: bool = False
    may: bool = False
    settings: Mapping[str, Any] = attrs.field(factory=dict)

    def judge(self, fallbacks: Mapping[str, int]) -> None:
        """Raises AssertionError if the fault does not permit the fallbacks."""
        if self.heals:
            assert not fallbacks, f"this fault is cured without a fallback, and there were {dict(fallbacks)}"
            return
        assert self.may or fallbacks, "the broker took over, and nobody says why"
        # Any failure can open the breaker, and let a waiting partition find another cause.
        assert set(fallbacks) <= self.causes | {"breaker-open"}, dict(fallbacks)


class Table:
    """Scenarios by name."""

    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []

    def add(self, name: str, faults: str, inject: Inject, causes: str = "", **more: Any) -> None:
        """``faults`` and ``causes`` are separated by spaces."""
        assert name not in {one.name for one in self.scenarios}, name
        made = Scenario(name, tuple(faults.split()), inject, causes=frozenset(causes.split()), **more)
        self.scenarios.append(made)

    def answers(
        self, name: str, faults: str, answer: Answer, causes: str, *, cured: bool = True, later: str = "", **more: Any
    ) -> None:
        """Adds the answer once, once in the middle, and always from the start or middle. ``cured``: once has no effect.

        ``later``: the numbers of the fault in the middle, if they differ.
        """
        once: dict[str, Any] = {"heals": True} if cured else {}
        self.add(f"{name}-once", faults, answered(answer, times=1), causes, **once, **more)
        self.add(f"{name}-once-later", later or faults, answered(answer, times=1, after=4), causes, **once, **more)
        self.add(f"{name}-always", faults, answered(answer), causes, **more)
        self.add(f"{name}-always-later", later or faults, answered(answer, after=6), causes, **more)


def answered(*answers: Answer, times: int | None = None, after: int = 0) -> Inject:
    """The store gives these answers."""

    def inject(rig: Rig) -> None:
        for answer in answers:
            rig.answers(answer, times=times, after=after)

    return inject
