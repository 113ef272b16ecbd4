"""The broker's side: a Kafka proxy that answers location requests and signs URLs, and the embedded cluster."""

__all__: list[str] = []
