"""Where an offset lies: LocationSource and its makers."""

__all__: list[str] = []
