"""Direct remote fetch for Kafka tiered storage: a consumer that reads old segments straight from the object store."""

__all__: list[str] = []
