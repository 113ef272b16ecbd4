from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import ByteRange
from kafka_remote_client.shim.signing import (
    SignatureRefusal,
    SignatureRefusedError,
    SignedRequest,
    SignedUrl,
    SigningKeys,
    UrlSigner,
)

SECRET = b"0123456789abcdef"
BASE = "http://127.0.0.1:9000"
KEY = "topic-uuid/0-uuid/00000000000000000000-seg ment%ü.log"
RANGE = ByteRange(100, 200)
HEADERS = {"range": "bytes=100-199"}


class StoppedClock(SystemClock):
    def __init__(self, now_ms: int = 1_795_000_000_000) -> None:
        self.now_ms = now_ms

    def time_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def signer(clock: StoppedClock) -> UrlSigner:
    return UrlSigner(SECRET, BASE, clock)


def target_of(url: str) -> str:
    assert url.startswith(BASE)
    return url.removeprefix(BASE)


def refusal(signer: UrlSigner, method: str, target: str, headers: dict[str, str]) -> SignatureRefusal:
    with pytest.raises(SignatureRefusedError) as caught:
        signer.verify(method, target, headers)
    return caught.value.reason


def test_a_signed_url_opens_its_key_and_range(signer: UrlSigner) -> None:
    url = signer.sign(KEY, RANGE, 120).url
    assert signer.verify("GET", target_of(url), HEADERS) == SignedRequest(KEY, RANGE)


def test_golden_url(signer: UrlSigner) -> None:
    # printf 'kafka-remote-1\nGET\na/b c.log\n0-9\n1795000001500' | openssl dgst -sha256 -hmac 0123456789abcdef
    assert signer.sign("a/b c.log", ByteRange(0, 10), 1.5).url == (
        "http://127.0.0.1:9000/a/b%20c.log?expires=1795000001500&range=0-9"
        "&signature=605c7a0077374eecd902e05bbec55a87151b21dd60d6ddba69824bfdc34fa413"
    )


def test_any_key_survives_the_url(signer: UrlSigner) -> None:
    @given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\\/"), min_size=1, max_size=40))
    def holds(name: str) -> None:
        if name in (".", ".."):
            return
        url = signer.sign(f"dir/{name}", RANGE, 1).url
        assert re.fullmatch(r"[!-~]+", url)
        assert signer.verify("GET", target_of(url), HEADERS).key == f"dir/{name}"

    holds()


def test_a_url_expires_at_its_millisecond(signer: UrlSigner, clock: StoppedClock) -> None:
    target = target_of(signer.sign(KEY, RANGE, 2).url)
    clock.now_ms += 1999
    signer.verify("GET", target, HEADERS)
    clock.now_ms += 1
    assert refusal(signer, "GET", target, HEADERS) is SignatureRefusal.EXPIRED


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "POST", "get"])
def test_a_url_opens_with_no_other_method(signer: UrlSigner, method: str) -> None:
    target = target_of(signer.sign(KEY, RANGE, 2).url)
    assert refusal(signer, method, target, HEADERS) is SignatureRefusal.WRONG_SIGNATURE


@pytest.mark.parametrize(
    "value", [None, "bytes=100-198", "bytes=100-200", "bytes=0-199", "bytes=100-", "bytes=-100", "bytes=100-199,300-400", ""]
)
def test_a_url_opens_no_other_range(signer: UrlSigner, value: str | None) -> None:
    target = target_of(signer.sign(KEY, RANGE, 2).url)
    headers = {} if value is None else {"range": value}
    assert refusal(signer, "GET", target, headers) is SignatureRefusal.WRONG_RANGE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range=100-199", "range=100-299"),
        ("expires=1795000002000", "expires=1795000009000"),
        (".log?", ".txt?"),
        ("topic-uuid", "other-uuid"),
    ],
)
def test_a_changed_url_does_not_match_its_signature(signer: UrlSigner, old: str, new: str) -> None:
    target = target_of(signer.sign(KEY, RANGE, 2).url)
    assert old in target
    assert refusal(signer, "GET", target.replace(old, new), HEADERS) is SignatureRefusal.WRONG_SIGNATURE


def test_every_digit_of_the_signature_counts(signer: UrlSigner) -> None:
    target = target_of(signer.sign(KEY, RANGE, 2).url)
    for at in range(len(target) - 64, len(target)):
        damaged = target[:at] + ("0" if target[at] != "0" else "1") + target[at + 1 :]
        assert refusal(signer, "GET", damaged, HEADERS) is SignatureRefusal.WRONG_SIGNATURE


def test_another_secret_does_not_verify(signer: UrlSigner, clock: StoppedClock) -> None:
    other = UrlSigner(b"fedcba9876543210", BASE, clock)
    assert refusal(other, "GET", target_of(signer.sign(KEY, RANGE, 2).url), HEADERS) is SignatureRefusal.WRONG_SIGNATURE


def test_a_url_of_an_earlier_key_is_valid_until_it_expires(clock: StoppedClock) -> None:
    keys = SigningKeys(SECRET)
    signer = UrlSigner(keys, BASE, clock)
    old = target_of(signer.sign(KEY, RANGE, 60).url)
    keys.rotate(SECRET, clock.now_ms, 0)
    keys.rotate(b"fedcba9876543210", clock.now_ms, 2_000)
    new = target_of(signer.sign(KEY, RANGE, 60).url)
    assert new != old
    clock.now_ms += 1_999
    for target in (old, new):
        signer.verify("GET", target, HEADERS)
    clock.now_ms += 1
    assert refusal(signer, "GET", old, HEADERS) is SignatureRefusal.WRONG_SIGNATURE
    signer.verify("GET", new, HEADERS)
    keys.rotate(b"third-third-third", clock.now_ms, 2_000)
    assert len(keys.valid(clock.now_ms)) == 2


@pytest.mark.parametrize("same", [SECRET, None])
def test_a_shorter_life_of_urls_does_not_end_those_of_before(clock: StoppedClock, same: bytes | None) -> None:
    keys = SigningKeys(SECRET)
    signer = UrlSigner(keys, BASE, clock)
    long = target_of(signer.sign(KEY, RANGE, 900).url)
    keys.rotate(same, clock.now_ms, 900_000)
    clock.now_ms += 1_000
    keys.rotate(b"fedcba9876543210", clock.now_ms, 60_000)
    clock.now_ms += 898_999
    signer.verify("GET", long, HEADERS)
    clock.now_ms += 1
    assert refusal(signer, "GET", long, HEADERS) is SignatureRefusal.WRONG_SIGNATURE


def test_another_base_url_verifies(signer: UrlSigner, clock: StoppedClock) -> None:
    behind_proxy = UrlSigner(SECRET, "https://store.example", clock)
    url = behind_proxy.sign(KEY, RANGE, 2).url
    assert signer.verify("GET", url.removeprefix("https://store.example"), HEADERS).key == KEY


@pytest.mark.parametrize(
    "mangle",
    [
        lambda target: target.partition("?")[0],
        lambda target: target + "&x-id=GetObject",
        lambda target: target.replace("expires", "Expires"),
        lambda target: target.replace("/", "", 1),
        lambda target: "/../" + target,
        lambda target: "/%2e%2e" + target,
        lambda target: "/" + target,
        lambda target: "/a%00b" + target,
        lambda target: "/%ff" + target,
        lambda target: "/%5c" + target,
        lambda target: target.upper(),
        lambda target: target.replace("range=100-199", "range=100-19\uff19"),
    ],
)
def test_a_url_of_another_format_is_unsigned(signer: UrlSigner, mangle: object) -> None:
    target = target_of(signer.sign(KEY, RANGE, 2).url)
    assert refusal(signer, "GET", mangle(target), HEADERS) is SignatureRefusal.UNSIGNED


def test_the_query_begins_at_the_first_question_mark(signer: UrlSigner) -> None:
    target = target_of(signer.sign("dir/a?b.log", RANGE, 2).url)
    assert signer.verify("GET", target, HEADERS).key == "dir/a?b.log"
    assert refusal(signer, "GET", target.replace("%3F", "?"), HEADERS) is SignatureRefusal.UNSIGNED


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\nb", "a\0b", "a\\b", "x" * 1025, "a\ud800"]
)
def test_refuses_to_sign_an_invalid_object_key(signer: UrlSigner, key: str) -> None:
    with pytest.raises(ValueError, match=r"object key|surrogates"):
        signer.sign(key, RANGE, 1)


@pytest.mark.parametrize(
    "base", ["", "ftp://host", "http://host/", "http://host/path", "http://u@host", "http://host:port", "http://h?x", "//host"]
)
def test_refuses_a_base_url_with_more_than_an_origin(base: str, clock: StoppedClock) -> None:
    with pytest.raises(ValueError, match="base URL"):
        UrlSigner(SECRET, base, clock)


def test_refuses_a_short_secret(clock: StoppedClock) -> None:
    with pytest.raises(ValueError, match="secret"):
        UrlSigner(b"short", BASE, clock)


def test_repr_shows_no_secret(signer: UrlSigner) -> None:
    signed = SignedUrl("https://store.example/key?signature=secret", (("if-match", "secret"),))
    assert repr(signed) == "SignedUrl(url=<redacted>, headers=<redacted>, life_seconds=None)"
    assert repr(SignedUrl("")) == "SignedUrl(url='', headers=(), life_seconds=None)"
    assert repr(signer) == f"UrlSigner({BASE!r})"
    assert str(SignatureRefusedError(SignatureRefusal.EXPIRED)) == "EXPIRED"
    assert signer.base_url == BASE
