"""A consumer's metrics for Prometheus and OpenTelemetry, each an extra."""

__all__: list[str] = []
