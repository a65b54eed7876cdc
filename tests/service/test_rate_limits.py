"""Rate limits: of keys, of addresses without a credential, and of guesses."""

from __future__ import annotations

import asyncio
from collections import Counter

import httpx2
import pytest

from holdfast.errors import TooManyRequests
from holdfast.service.identity.limits import MOST_BUCKETS, Buckets, RateLimits, Rates, network_of
from tests.conftest import eventually
from tests.service.serving import API, serving_http

pytestmark = pytest.mark.anyio


class Clock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 4.0, clock)
    assert [buckets.take("a") for _ in range(4)] == [0.0] * 4
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0.0, "another name has a bucket of its own"
    clock.now += 0.25
    assert buckets.take("a") == pytest.approx(0.25), "asking too early costs nothing"
    clock.now += 0.25
    assert buckets.take("a") == 0.0
    clock.now += 1000
    assert [buckets.take("a") > 0 for _ in range(5)] == [False] * 4 + [True], "a rest gives no more than the burst"


def test_buckets_stay_few_whatever_names_come() -> None:
    buckets = Buckets(1.0, 1.0, Clock())
    for number in range(MOST_BUCKETS + 100):
        buckets.take(number)
    assert len(buckets._levels) == MOST_BUCKETS
    assert buckets.take(MOST_BUCKETS + 99) > 0, "the last one is still known"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_a_network_of_version_six_counts_as_one_address(one: str, other: str, is_same: bool) -> None:
    assert (network_of(one) == network_of(other)) is is_same


def test_a_right_credential_is_no_guess() -> None:
    clock = Clock()
    limits = RateLimits(Rates(wrong_credentials_per_minute=3), clock)
    for _ in range(100):
        limits.count_guess("10.0.0.1")
        limits.was_no_guess("10.0.0.1")
    for _ in range(3):
        limits.count_guess("10.0.0.1")
    with pytest.raises(TooManyRequests) as refused:
        limits.count_guess("10.0.0.1")
    assert refused.value.seconds == pytest.approx(20)


async def test_a_key_that_asks_too_often_waits_and_other_keys_do_not(database_url: str) -> None:
    async with serving_http(database_url, key_requests_per_second=0.05) as service:
        busy, other = await service.as_role("viewer"), await service.as_role("viewer")
        assert (await busy.get(f"{API}/queues")).status_code == 200
        refused = await busy.get(f"{API}/queues")
        assert (refused.status_code, refused.json()["code"]) == (429, "TOO_MANY_REQUESTS")
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert (await other.get(f"{API}/queues")).status_code == 200


async def test_an_address_without_a_credential_is_limited_also_on_this_machine(database_url: str) -> None:
    async with serving_http(database_url, address_requests_per_second=0.5) as service:
        stranger, viewer = service.with_key(None), await service.as_role("viewer")
        statuses = Counter([(await stranger.get(f"{API}/jobs")).status_code for _ in range(10)])
        assert statuses[401] < 10
        assert statuses[429] > 0
        assert (await stranger.get("/livez")).status_code == 429
        assert (await viewer.get(f"{API}/jobs")).status_code == 200


async def test_many_requests_that_bring_one_right_key_at_once_are_no_guesses(database_url: str) -> None:
    """As after a restart of the service, when all its listeners come again."""
    async with serving_http(database_url, wrong_credentials_per_minute=5) as service:
        clients = [service.with_key(await service.key("viewer"))] * 50
        answers = await asyncio.gather(*(client.get(f"{API}/queues") for client in clients))
        assert Counter(answer.status_code for answer in answers) == {200: 50}


async def test_guessing_of_keys_stops_and_those_who_are_known_are_not_locked_out(database_url: str) -> None:
    async with serving_http(database_url, wrong_credentials_per_minute=5) as service:
        key = await service.key("viewer")
        viewer = service.with_key(key)
        assert (await viewer.get(f"{API}/jobs")).status_code == 200
        right, guesser = key[:11], service.with_key(None)

        async def guess(client: httpx2.AsyncClient, number: int) -> int:
            headers = {"Authorization": f"Bearer {right}{number:043}"}
            return (await client.get(f"{API}/jobs", headers=headers)).status_code

        statuses = Counter(await asyncio.gather(*(guess(guesser, number) for number in range(40))))
        assert (set(statuses), statuses[401] <= 8) == ({401, 429}, True)
        for path, body in (("/session", {"key": f"{right}{0:043}"}), ("/session", {"code": "c"})):
            assert (await guesser.post(f"{API}{path}", json=body)).status_code == 429
        cookie = {"Cookie": "holdfast_session=guessed"}
        assert (await guesser.get(f"{API}/jobs", headers=cookie)).status_code == 429
        assert (await viewer.get(f"{API}/jobs")).status_code == 200

        async def is_read_again() -> bool:
            await guess(guesser, 0)
            assert (await viewer.get(f"{API}/jobs")).status_code == 200
            (row,) = [one for one in await service.admin.keys() if one.prefix == right]
            await service.admin.revoke_key(right) if row.valid else None
            return True

        await eventually(is_read_again)

        async def has_ended() -> bool:
            return (await viewer.get(f"{API}/jobs")).status_code == 401

        await eventually(has_ended, 5.0)
