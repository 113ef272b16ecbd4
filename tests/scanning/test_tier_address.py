"""``TierAddress``: a value that opens a tier in this or another process."""

from __future__ import annotations

import pickle

from kafka_remote_client.scanning.tier_address import TierAddress
from tests.support.golden import golden_aiven


def test_a_pickled_address_opens_a_chunked_tier() -> None:
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


def test_repr_shows_no_store_setting() -> None:
    assert "hidden" not in repr(TierAddress("file:///tier", store_options={"s3.secret.key": "hidden"}))
