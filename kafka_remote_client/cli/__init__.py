"""The ``kafka-remote`` command: verbs apart from their output."""

__all__: list[str] = []
