"""The layout of Aiven's tiered storage plugin: manifests, chunks that may be compressed and encrypted, joined index files."""

__all__: list[str] = []
