"""The broker's side: a Kafka proxy that answers location requests and signs URLs."""

__all__: list[str] = []
