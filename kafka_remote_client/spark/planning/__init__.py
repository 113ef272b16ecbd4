"""What the driver plans: filters, splits, micro-batches, and what a job takes."""

__all__: list[str] = []
