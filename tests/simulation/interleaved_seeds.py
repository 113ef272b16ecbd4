"""Runs a case of the harness of interleaved threads with many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["SEEDS", "NoLock", "first_failure", "with_every_seed"]

SEEDS = range(60)


class NoLock:
    """A lock that excludes nobody: planted in place of one."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def with_every_seed(case: Callable[[int], None], seeds: Iterable[int] = SEEDS) -> None:
    """Runs a case with each seed. A failure names its seed."""
    for seed in seeds:
        try:
            case(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def first_failure(case: Callable[[int], None], *kinds: type[BaseException]) -> int | None:
    """Returns the first seed with which a case fails in one of those ways."""
    for seed in SEEDS:
        try:
            case(seed)
        except kinds:
            return seed
    return None
