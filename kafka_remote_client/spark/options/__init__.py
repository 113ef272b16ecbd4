"""The options of the source, from Spark's and Java's names to the settings of this client."""

__all__: list[str] = []
