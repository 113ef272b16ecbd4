"""URLs of stores, and names of objects below them."""

from __future__ import annotations

import pytest
from kafka_remote_fetchers._store_url import StoreUrl

from kafka_remote_client.errors import ConfigurationError, ForbiddenLocationError


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://my.bucket_1/tier", "my.bucket_1", "tier/"),
        ("s3://bucket/a b/é/", "bucket", "a b/é/"),
        ("s3+obstore://bucket/a", "bucket", "a/"),
    ],
)
def test_a_url_has_a_bucket_and_a_prefix(url: str, bucket: str, prefix: str) -> None:
    assert StoreUrl.parse(url, "s3", "s3+obstore") == StoreUrl(bucket, prefix)


@pytest.mark.parametrize(
    "url",
    ["", "s3:", "s3://", "s3:///x", "s3://b", "s3://user:secret@bucket", "s3://bucket:80", "s3://bucket/a?secret", "s3://bucket/a#b",
     "gs://bucket", "s3://bucket/a/../b", "s3://bucket/a//b", "s3://bucket/\n"],
)  # fmt: skip
def test_refuses_an_invalid_bucket_without_showing_the_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="s3://BUCKET/PREFIX") as caught:
        StoreUrl.parse(url, "s3")
    assert "secret" not in str(caught.value)


def test_names_and_keys_are_converted_both_ways() -> None:
    location = StoreUrl("bucket", "tier/")
    assert location.name("a/b.log") == "tier/a/b.log"
    assert location.key("tier/a/b.log") == "a/b.log"
    assert location.key("tier/") is None
    assert location.key("tier/folder/") is None
    for key in ("", "../a", "a\n"):
        with pytest.raises(ForbiddenLocationError):
            location.name(key)
