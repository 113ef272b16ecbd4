"""The layouts that ``verify`` knows, by the names that ``--layout`` takes."""

from __future__ import annotations

from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.verify.aiven_form import AivenForm
from kafka_remote_client.verify.local_form import LocalForm
from kafka_remote_client.verify.stored_segment import StoredForm

__all__ = ["form_named"]


def form_named(name: str, options: LayoutOptions | None = None) -> StoredForm:
    """Raises as :func:`~kafka_remote_client.remote_log.layouts.layout_named`."""
    options = options or LayoutOptions()
    layout_named(name, options)  # refuses what there is not
    if name == AivenLayout.name:
        return AivenForm(options.key_prefix, KeyRing.of_files(options.encryption_keys), options.encryption_keys)
    return LocalForm()
