"""A layout is inspected by its own inspector, or by the general one from the layout's own data."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.verify import layout_inspectors
from kafka_remote_client.verify.aiven_layout import AivenInspector
from kafka_remote_client.verify.layout_inspectors import PlainInspector, inspector_of
from tests.support.damaged_tier import GoldenTier


class OfAVendor(LocalTieredStorageLayout):
    name = "vendor"


def test_a_layout_has_its_own_inspector_or_the_general_one() -> None:
    own, local, vendor = AivenLayout(), LocalTieredStorageLayout(), OfAVendor()
    assert isinstance(inspector_of(own), AivenInspector)
    for layout in (local, vendor):
        inspector = inspector_of(layout)
        assert isinstance(inspector, PlainInspector)
        assert inspector.layout is layout


def test_an_inspector_that_fails_to_load_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_inspectors, "plugin_names", lambda group: ["vendor"])
    with pytest.raises(ConfigurationError, match="unknown layout inspector 'vendor'"):
        inspector_of(OfAVendor())


@pytest.mark.parametrize("mode", ["aiven-plain", "aiven-zstd", "aiven-zstd-aes"])
def test_the_general_inspector_finds_valid_segments_valid(mode: str) -> None:
    tier = GoldenTier.of(mode, "epochs")
    tier.inspector = PlainInspector(tier.inspector.layout)
    for key in [key for key in tier.store.objects if key.endswith(".rsm-manifest")]:
        assert key.startswith(tier.inspector.prefix)
    kinds = tier.verify(metadata=True).kinds
    assert kinds <= {"foreign-object"}  # the manifests, which only the layout's own inspector knows


def test_a_chunk_that_cannot_be_restored_is_damage_of_the_log() -> None:
    tier = GoldenTier.of("aiven-zstd", "epochs")
    tier.inspector = PlainInspector(tier.inspector.layout)
    key = tier.segments()[0].keys["log"]
    data = bytearray(tier.store.objects[key])
    data[len(data) // 2] ^= 0xFF
    tier.store.objects[key] = bytes(data)
    found = [finding for finding in tier.verify().findings if finding.kind.label != "foreign-object"]
    assert {finding.object_key for finding in found} == {key}


def test_an_invalid_manifest_closes_its_segment() -> None:
    tier = GoldenTier.of("aiven-plain", "epochs")
    tier.inspector = PlainInspector(tier.inspector.layout)
    segment = tier.segments()[0]
    manifest = segment.keys["log"].removesuffix("log") + "rsm-manifest"
    tier.store.objects[manifest] = b"{}"
    assert "manifest-unreadable" in tier.verify().kinds


def test_an_unreadable_index_is_reported_and_not_used() -> None:
    tier = GoldenTier.of("aiven-zstd-aes", "epochs")
    tier.inspector = PlainInspector(tier.inspector.layout)
    key = tier.segments()[0].keys["offset index"]
    tier.store.objects[key] = bytes(len(tier.store.objects[key]))
    found = [finding for finding in tier.verify().findings if finding.kind.label != "foreign-object"]
    assert {finding.object_key for finding in found} == {key}
