"""The driver's plans: filters, splits, micro-batches, and the cost of a job."""

__all__: list[str] = []
