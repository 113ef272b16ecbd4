"""A consumer's metrics for those who collect them: Prometheus and OpenTelemetry, each an extra."""

__all__: list[str] = []
