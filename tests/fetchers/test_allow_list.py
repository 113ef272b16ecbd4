"""S01: where a URL may lead. A real fetcher gets each hostile URL, with listeners at the places that the URL aims at."""

from __future__ import annotations

import socket
import urllib.parse
from collections.abc import Iterator

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_remote_fetchers._allow_list import AllowList, StoreTarget
from kafka_remote_fetchers.presigned import PresignedFetcher

from kafka_remote_client.errors import ConfigurationError, ForbiddenLocationError
from kafka_remote_client.plugin import LocationMetadata
from kafka_remote_client.shim.http_server import ConnectionListener
from kafka_remote_client.testing import segment_metadata, texts_of

CANARY = "CANARY5ig"

# {good} is the allowed 127.0.0.1:port, {port} its port, {evil} another listener's port; the allowed prefix is /tier
HOSTILE_URLS = [
    # schemes
    "file:///etc/passwd",
    "file://{good}/tier/x",
    "ftp://{good}/tier/x",
    "gopher://{good}/tier/x",
    "data:text/plain,x",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/tier/x",
    "ws://{good}/tier/x",
    "ldap://{good}/tier/x",
    "jar:http://{good}/tier/x!/y",
    "javascript:alert(1)",
    "s3://bucket/tier/x",
    "//{good}/tier/x",
    "/tier/x",
    "tier/x",
    "{good}/tier/x",
    "http:{good}/tier/x",
    "http:/{good}/tier/x",
    "http:///{good}/tier/x",
    "HTTP://{good}/tier/x",
    " http://{good}/tier/x",
    "http://{good}/tier/x ",
    "\thttp://{good}/tier/x",
    "",
    "http://",
    "http://?x",
    # other hosts and ports
    "http://127.0.0.1:{evil}/tier/x",
    "http://127.0.0.1/tier/x",
    "http://127.0.0.1:80/tier/x",
    "https://{good}/tier/../x",
    "http://localhost:{port}/tier/x",
    "http://127.0.0.2:{port}/tier/x",
    "http://127.1:{port}/tier/x",
    "http://127.0.1:{port}/tier/x",
    "http://2130706433:{port}/tier/x",
    "http://0x7f000001:{port}/tier/x",
    "http://0x7f.0.0.1:{port}/tier/x",
    "http://017700000001:{port}/tier/x",
    "http://0177.0.0.1:{port}/tier/x",
    "http://127.0.0.01:{port}/tier/x",
    "http://127.0.0.1.:{port}/tier/x",
    "http://127.0.0.256:{port}/tier/x",
    "http://0:{port}/tier/x",
    "http://0.0.0.0:{port}/tier/x",
    "http://[::1]:{port}/tier/x",
    "http://[::ffff:127.0.0.1]:{port}/tier/x",
    "http://[::]:{port}/tier/x",
    "http://[::1%25lo]:{port}/tier/x",
    "http://[127.0.0.1]:{port}/tier/x",
    "http://[:{port}/tier/x",
    "http://[v1.x]:{port}/tier/x",
    "http://169.254.169.254/latest/meta-data/",
    "http://metadata.google.internal/tier/x",
    "http://evil.example/tier/x",
    "http://127.0.0.1.nip.io:{port}/tier/x",
    "http://store..example/tier/x",
    "http://-store.example/tier/x",
    # userinfo, fragments, separators that parsers disagree on
    "http://user@{good}/tier/x",
    "http://user:password@{good}/tier/x",
    "http://@{good}/tier/x",
    "http://{good}@127.0.0.1:{evil}/tier/x",
    "http://127.0.0.1:{evil}@{good}/tier/x",
    "http://{good}%40127.0.0.1:{evil}/tier/x",
    "http://{good}#@127.0.0.1:{evil}/tier/x",
    "http://127.0.0.1:{evil}#@{good}/tier/x",
    "http://127.0.0.1:{evil}\\@{good}/tier/x",
    "http://{good}\\@127.0.0.1:{evil}/tier/x",
    "http://127.0.0.1:{evil};{good}/tier/x",
    "http://{good},127.0.0.1:{evil}/tier/x",
    "http:\\\\{good}\\tier\\x",
    "http://{good}\\tier\\x",
    "http://{good}/tier/x#fragment",
    "http://{good}/tier/x?a#b",
    "http://127.0.0.1:{port}:{evil}/tier/x",
    "http://127.0.0.1:/tier/x",
    "http://127.0.0.1:+{port}/tier/x",
    "http://127.0.0.1:0{port}/tier/x",
    "http://127.0.0.1:{port}0000/tier/x",
    "http://127.0.0.1:-1/tier/x",
    "http://127.0.0.1:0/tier/x",
    "http://127.0.0.1:65536/tier/x",
    # unicode and encodings in the host
    "http://127。0。0。1:{port}/tier/x",
    "http://\uff11\uff12\uff17.0.0.1:{port}/tier/x",
    "http://ⓛocalhost:{port}/tier/x",
    "http://127.0.0.1\u200b:{port}/tier/x",
    "http://%31%32%37.0.0.1:{port}/tier/x",
    "http://127.0.0.1%00.evil.example:{port}/tier/x",
    "http://127.0.0.1%2f@evil.example:{port}/tier/x",
    "http://127.0.0.1\u2044tier:{port}/x",
    "http://xn--{port}/tier/\u00e9",
    # line breaks and control characters
    "http://{good}/tier/x\r\nHost: evil.example",
    "http://{good}/tier/x\nX: y",
    "http://{good}\r\n/tier/x",
    "http://{good}/tier/x?y=\r\nz",
    "http://{good}/tier/x\0",
    "http://{good}/tier/x y",
    "http://{good}/tier/\x7f",
    "http://{good}/tier/%0d%0aHost:%20evil",
    "http://{good}/tier/%00",
    # out of the prefix
    "http://{good}/",
    "http://{good}",
    "http://{good}?/tier/x",
    "http://{good}/other/x",
    "http://{good}/tierx",
    "http://{good}/Tier/x",
    "http://{good}//tier/x",
    "http://{good}/tier/../other",
    "http://{good}/tier/..",
    "http://{good}/tier/./x",
    "http://{good}/tier/%2e%2e/other",
    "http://{good}/tier/.%2e/other",
    "http://{good}/tier/%252e%252e/other",
    "http://{good}/tier/%25252e%25252e/other",
    "http://{good}/tier/..%2fother",
    "http://{good}/tier/..%5cother",
    "http://{good}/tier/%5c..%5cother",
    "http://{good}/tier/..;/other",
    "http://{good}/tier/%2525252525252e",
    "http://{good}/%74ier/x",
    "http://{good}/tier%2fx",
    # malformed percent signs, brackets, size
    "http://{good}/tier/%",
    "http://{good}/tier/%zz",
    "http://{good}/tier/x?%=",
    "http://{good}/tier/<x>",
    'http://{good}/tier/"x"',
    "http://{good}/tier/{{x}}",
    "http://{good}/tier/x|y",
    "http://{good}/tier/" + "x" * 9000,
]


@attrs.frozen
class Surroundings:
    fetcher: PresignedFetcher
    good: str
    port: int
    evil: int
    look_ups: list[str]


@pytest.fixture(scope="module")
def surroundings() -> Iterator[Surroundings]:
    """A fetcher, and two listeners that must see no connection: one at the allowed place, one elsewhere."""
    listeners = [ConnectionListener(socket.socket.close) for _ in range(2)]
    look_ups: list[str] = []

    def resolver(host: str, port: int) -> list[str]:
        look_ups.append(host)
        return ["127.0.0.1"]

    for listener in listeners:
        listener.start()
    allowed, other = (listener.address[1] for listener in listeners)
    fetcher = PresignedFetcher(resolver=resolver)
    fetcher.configure(
        {
            "remote.storage.fetcher.allowed.hosts": f"127.0.0.1:{allowed}/tier, store.example/tier",
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
        }
    )
    yield Surroundings(fetcher, f"127.0.0.1:{allowed}", allowed, other, look_ups)
    fetcher.close()
    for listener in listeners:
        listener.stop()
    assert [listener.connections for listener in listeners] == [0, 0]


def test_s01_the_list_of_hostile_urls_is_long_and_without_duplicates() -> None:
    assert len(set(HOSTILE_URLS)) == len(HOSTILE_URLS) >= 80


@pytest.mark.parametrize("url", HOSTILE_URLS)
def test_s01_hostile_url_is_refused_before_any_look_up_or_connection(surroundings: Surroundings, url: str) -> None:
    filled = url.format(good=surroundings.good, port=surroundings.port, evil=surroundings.evil)
    filled += CANARY if "?" in filled else ""
    metadata = segment_metadata(LocationMetadata(url=filled).encode())
    with pytest.raises(ForbiddenLocationError) as caught:
        surroundings.fetcher.fetch_log_segment(metadata, 0, 10)
    texts = list(texts_of(caught.value))
    assert not [text for text in texts if CANARY in text or (len(filled) > 20 and filled in text)]
    assert surroundings.look_ups == []


def test_an_empty_allow_list_allows_nothing() -> None:
    for text in (None, "", "  ", ",", " , ,"):
        with pytest.raises(ForbiddenLocationError, match=r"URL host 'store\.example:443' is not in remote"):
            AllowList.parse(text).check("https://store.example/x")


@pytest.mark.parametrize(
    ("entries", "url", "target"),
    [
        (
            "store.example",
            "https://store.example/a/b?c=d&e=f%2Fg",
            StoreTarget("https", "store.example", 443, "/a/b?c=d&e=f%2Fg"),
        ),
        ("store.example", "https://STORE.example:443/x", StoreTarget("https", "store.example", 443, "/x")),
        ("Store.Example:443", "https://store.example/x", StoreTarget("https", "store.example", 443, "/x")),
        ("store.example", "http://store.example/x", StoreTarget("http", "store.example", 80, "/x")),
        ("a.example,store.example:9000", "http://store.example:9000/", StoreTarget("http", "store.example", 9000, "/")),
        ("store.example:9000", "http://store.example:9000?x", StoreTarget("http", "store.example", 9000, "/?x")),
        ("store.example/tier", "https://store.example/tier", StoreTarget("https", "store.example", 443, "/tier")),
        ("store.example/tier/", "https://store.example/tier/x", StoreTarget("https", "store.example", 443, "/tier/x")),
        ("10.0.0.7:9000", "http://10.0.0.7:9000/x", StoreTarget("http", "10.0.0.7", 9000, "/x")),
        ("[::1]:9000", "http://[0:0::1]:9000/x", StoreTarget("http", "::1", 9000, "/x")),
        ("b-1.s3.eu-west-1.amazonaws.com", "https://b-1.s3.eu-west-1.amazonaws.com/a%20b%25", None),
        ("store.example", "https://store.example/a/b..c/...%20/%C3%BC/x:y@z~!$&'()*+,;=", None),
    ],
)
def test_an_allowed_url_is_split_into_its_parts(entries: str, url: str, target: StoreTarget | None) -> None:
    found = AllowList.parse(entries, allow_http=True).check(url)
    if target is not None:
        assert found == target
    assert url.endswith(found.resource) or found.resource.startswith("/?") or found.resource == "/"


def test_plain_http_needs_to_be_allowed() -> None:
    with pytest.raises(ForbiddenLocationError, match=r"plain http"):
        AllowList.parse("store.example").check("http://store.example/x")


def test_the_error_of_a_url_names_the_form_of_an_entry() -> None:
    with pytest.raises(ConfigurationError) as caught:
        AllowList.parse("good.example, https://store.example:9000/x")
    assert str(caught.value).endswith("allowed.hosts: entry 2 is a URL; write host[:port][/path-prefix] without the scheme")


@pytest.mark.parametrize(
    "entry",
    ["*.store.example", "*", "user@store.example", "store.example:0", "store.example:70000",
     "store example", "store.example/../x", "store.example?x", "127.1", "[::1", "münchen.example", "a..b", "[1.2.3.4]"],
)  # fmt: skip
def test_the_error_of_a_malformed_entry_has_its_position(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="entry 2 is not host") as caught:
        AllowList.parse(f"good.example, {entry}")
    assert entry not in str(caught.value).replace("host[:port][/path-prefix]", "") or entry == "*"


@pytest.mark.parametrize(
    ("url", "authority", "host_headers", "tls"),
    [
        ("https://store.example/x", "store.example:443", ("store.example", "store.example:443"), True),
        ("http://store.example/x", "store.example:80", ("store.example", "store.example:80"), False),
        ("https://store.example:9000/x", "store.example:9000", ("store.example:9000",), True),
        ("https://[::1]/x", "[::1]:443", ("[::1]", "[::1]:443"), True),
    ],
)
def test_a_target_knows_how_it_is_addressed(url: str, authority: str, host_headers: tuple[str, ...], tls: bool) -> None:
    allow_list = AllowList.parse("store.example,store.example:9000,[::1]", allow_http=True)
    target = allow_list.check(url)
    assert (target.authority, target.host_headers, target.tls) == (authority, host_headers, tls)
    assert "/x" not in repr(target)


URL_PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "http://",
                "https://",
                "store.example",
                ":443",
                "/tier",
                "/",
                "..",
                "%2e",
                "@",
                "?",
                "#",
                "\\",
                ":",
                "evil",
                "[::1]",
            ]
        ),
        st.text(max_size=3),
    ),
    max_size=12,
)


@given(URL_PIECES)
def test_s01_an_allowed_url_leads_to_the_same_host_for_every_parser(pieces: list[str]) -> None:
    url = "".join(pieces)
    try:
        target = AllowList.parse("store.example/tier").check(url)
    except ForbiddenLocationError:
        return
    parsed = urllib.parse.urlsplit(url)
    assert (parsed.hostname, parsed.port or 443, parsed.username, parsed.fragment) == ("store.example", 443, None, "")
    assert urllib.parse.unquote(parsed.path).startswith("/tier")
    assert target.host == "store.example"


@pytest.mark.parametrize("host", ["evilstore.example", "evil.store.example", "store.example.evil", "store.exampl"])
def test_a_host_matches_as_a_whole(host: str) -> None:
    allowed = AllowList.parse("store.example")
    assert allowed.check("https://store.example/x").host == "store.example"
    with pytest.raises(ForbiddenLocationError, match=r"remote\.storage\.fetcher\.allowed\.hosts"):
        allowed.check(f"https://{host}/x")
