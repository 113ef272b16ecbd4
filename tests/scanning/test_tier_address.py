"""The address of a tier: a value that opens it, here or in another process."""

from __future__ import annotations

import pickle

from kafka_remote_client.scanning.tier_address import TierAddress
from tests.support.golden import golden_aiven


def test_it_opens_a_tier_in_chunks_after_it_was_pickled() -> None:
    root = golden_aiven("aiven-zstd-aes")
    address = TierAddress(
        (root / "remote").as_uri(),
        layout="aiven",
        key_prefix="some-prefix/",
        encryption_keys={"key1": str(root / "keys" / "key1.private.der")},
    )
    with pickle.loads(pickle.dumps(address)).open("epochs") as tier:
        assert tier.topics() == ["epochs"]
        assert tier.absence("epochs") is None
        assert tier.absence("orders") is not None


def test_it_shows_no_setting_of_the_store() -> None:
    assert "hidden" not in repr(TierAddress("file:///tier", store_options={"s3.secret.key": "hidden"}))
