"""Requests to addresses that others have chosen go to public addresses, or where the installation allows it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.define.gates import BreakerRules
from holdfast.define.registry import Registry
from holdfast.errors import InvalidInput
from holdfast.outgoing import AddressRefused, Outgoing, checked_http_url, is_public
from holdfast.settings import load_settings
from holdfast.worker.dependencies import probe
from tests.gateway import Gateway

pytestmark = pytest.mark.anyio


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


@pytest.mark.parametrize(
    "address",
    [
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::10.0.0.1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::1",
        "::",
        "fe80::1%eth0",
        "fec0::1",
        "fd00::1",
        "fd00:ec2::254",
        "ff02::1",
        "224.0.0.1",
        "239.255.255.250",
        "168.63.129.16",
        "64:ff9b::168.63.129.16",
        "169.254.169.254",
        "100.100.100.200",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "255.255.255.255",
        "192.0.0.192",
        "192.88.99.1",
        "64:ff9b:1::10.0.0.1",
        "64:ff9b:1:ffff::1",
        "::ffff:0:127.0.0.1",
        "::ffff:0:169.254.169.254",
        "3fff::1",
        "5f00::1",
        "4000::1",
    ],
)
def test_an_address_that_leads_to_a_private_one_counts_as_private(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(AddressRefused, match="is not a public address; HOLDFAST_OUTGOING_ALLOW does not list it"):
        Outgoing().addresses(address, 443)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:0:8.8.8.8", "2606:4700::1111"]
)
def test_an_address_of_the_public_network_counts_as_public(address: str) -> None:
    assert is_public(address)
    assert Outgoing().addresses(address, 443)


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1"])
def test_every_spelling_of_this_machine_is_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        Outgoing().addresses(host, 80)


@pytest.mark.parametrize("allowed", ["127.0.0.0/8", "127.0.0.1", "localhost", "LOCALHOST."])
def test_an_installation_can_allow_a_host_and_a_network(allowed: str) -> None:
    host = "localhost" if "local" in allowed.lower() else "127.0.0.1"
    assert "127.0.0.1" in Outgoing([allowed]).addresses(host, 80)
    with pytest.raises(AddressRefused):
        Outgoing([allowed]).addresses("10.0.0.1", 80)


def test_a_network_that_is_allowed_is_allowed_in_its_mapped_form() -> None:
    assert Outgoing(["10.0.0.0/8"]).addresses("::ffff:10.0.0.1", 80)


def test_a_host_with_one_private_address_among_public_ones_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", found)
    with pytest.raises(AddressRefused, match=r"mixed\.example is 10\.0\.0\.1, which is not a public address"):
        Outgoing().addresses("mixed.example", 80)


async def test_a_probe_goes_to_the_address_that_was_checked(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second look at the name, which could give another address, does not happen."""
    ask, asked = socket.getaddrinfo, []

    def found(host: Any, *more: Any, **named: Any) -> Any:
        asked.append(host)
        return ask("127.0.0.1" if host == "hooks.internal" else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    rules = BreakerRules("g", probe_url=gateway.url.replace("127.0.0.1", "hooks.internal") + "/health")
    assert await probe(rules, Registry(), Outgoing(["hooks.internal"])) is None
    assert asked.count("hooks.internal") == 1


async def test_a_probe_of_a_private_address_is_refused_before_it_is_sent(gateway: Gateway) -> None:
    rules = BreakerRules("g", probe_url=f"{gateway.url}/health")
    problem = await probe(rules, Registry(), Outgoing())
    assert problem is not None and "127.0.0.1 is not a public address" in problem
    assert not gateway.asked
    assert await probe(rules, Registry(), Outgoing(["127.0.0.0/8"])) is None


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x",
        "https://",
        "https://ho st/",
        "hooks",
        "https://höst/",
        "https://host:0/",
        "https://h/\n",
        "x" * 2100,
    ],
)
def test_what_is_no_address_of_a_receiver_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="The URL of webhook 'a' is not one"):
        checked_http_url(url, "webhook 'a'")


@pytest.mark.parametrize("url", ["https://ann:pw@host/", "https://ann@host/", "https://host/#part"])
def test_an_address_with_a_password_or_a_fragment_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="has a user name, a password or a fragment"):
        checked_http_url(url, "webhook 'a'")


def test_the_setting_takes_hosts_addresses_and_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_OUTGOING_ALLOW", "hooks.internal, 10.0.0.7,10.1.0.0/16, ::1")
    assert load_settings().outgoing_allow == ("hooks.internal", "10.0.0.7", "10.1.0.0/16", "::1")
    for wrong in ("*", "10.0.0.1/8", "https://host/", "host:80", "1.2.3.4.5"):
        monkeypatch.setenv("HOLDFAST_OUTGOING_ALLOW", wrong)
        with pytest.raises(InvalidInput) as refused:
            load_settings()
        assert any("HOLDFAST_OUTGOING_ALLOW" in one.message for one in refused.value.errors)
