"""What lies in the tier: metadata, segment states, lineage, index files, object layouts, and the resolver."""

__all__: list[str] = []
