"""PySpark: a batch source with the options and the schema of ``format("kafka")`` that reads the tiered part from the store."""

__all__: list[str] = []
