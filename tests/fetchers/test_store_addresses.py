"""Which addresses a store may have. Names that resolve to others: test_connections."""

from __future__ import annotations

import pytest
from kafka_remote_fetchers._store_addresses import is_permitted_address, system_resolver


@pytest.mark.parametrize(
    ("address", "public", "private"),
    [
        ("8.8.8.8", True, True),
        ("2606:4700::1111", True, True),
        ("10.0.0.1", False, True),
        ("172.16.0.1", False, True),
        ("192.168.1.1", False, True),
        ("127.0.0.1", False, True),
        ("127.255.255.254", False, True),
        ("100.64.0.1", False, True),
        ("198.18.0.1", False, True),
        ("192.0.2.1", False, True),
        ("240.0.0.1", False, True),
        ("255.255.255.255", False, True),
        ("::1", False, True),
        ("fc00::1", False, True),
        ("fd12::1", False, True),
        ("2001:db8::1", False, True),
        ("::ffff:8.8.8.8", True, True),
        ("::ffff:127.0.0.1", False, True),
        ("::ffff:10.0.0.1", False, True),
        ("64:ff9b::808:808", True, True),
        ("64:ff9b::7f00:1", False, True),
        ("64:ff9b::a00:1", False, True),
        ("2002:0a00:0001::1", False, True),
        ("169.254.169.254", False, False),
        ("169.254.0.1", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("2002:a9fe:a9fe::1", False, False),
        ("2001:0:808:808::5601:5601", False, False),  # Teredo around 169.254.169.254
        ("fe80::1", False, False),
        ("fd00:ec2::254", False, False),
        ("169.254.170.2", False, False),
        ("169.254.170.23", False, False),
        ("fd00:ec2::23", False, False),
        ("fd00:ec2::253", False, False),
        ("fd20:ce::254", False, False),
        ("100.100.100.200", False, False),
        ("100.100.100.201", False, True),
        ("::ffff:100.100.100.200", False, False),
        ("168.63.129.16", False, False),
        ("64:ff9b::a83f:8110", False, False),  # NAT64 of 168.63.129.16
        ("168.63.129.17", True, True),
        ("192.0.0.192", False, False),
        ("febf::1", False, False),
        ("fe80::1%1", False, False),
        ("224.0.0.1", False, False),
        ("ff02::1", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
    ],
)
def test_s02_which_addresses_a_store_may_have(address: str, public: bool, private: bool) -> None:
    assert is_permitted_address(address, allow_private=False) is public
    assert is_permitted_address(address, allow_private=True) is private


def test_the_system_resolver_gives_each_address_once() -> None:
    addresses = system_resolver("localhost", 80)
    assert "127.0.0.1" in addresses or "::1" in addresses
    assert len(set(addresses)) == len(addresses)
