"""Options under their former names. They work for one release, with one WARNING on standard error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafka_remote_client.cli.output import OutputFormat

__all__ = ["output_of", "topics_of"]


def topics_of(topics: Sequence[str] | None, option: str | None, say: Callable[[str], None]) -> tuple[str, ...]:
    """Returns a verb's topics, each once; ``option`` is the value of the former ``--topic``, with commas between several."""
    given = tuple(dict.fromkeys(topics or ()))
    if option is None:
        return given
    say("WARNING: --topic is deprecated and will be removed in the next release; name topics as arguments: TOPIC...")
    return tuple(dict.fromkeys((*given, *filter(None, map(str.strip, option.split(","))))))


def output_of(output: OutputFormat, *, as_json: bool, say: Callable[[str], None]) -> OutputFormat:
    """The format; ``as_json`` is the former ``--json``."""
    if not as_json:
        return output
    say("WARNING: --json is deprecated and will be removed in the next release; use --output json")
    return OutputFormat.JSON
