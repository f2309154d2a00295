"""The limit over all workers and the parked model, on a real Redis."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from chordesk.agents.role_models import RoleModel
from chordesk.models.errors import Postponed
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.engine import limits as limiter_keys
from chordesk.tasks.engine.limits import (
    LONG_SECONDS,
    PARK_SECONDS,
    PLAN_PARK_MOST_SECONDS,
    PLAN_PARK_SECONDS,
    Admission,
    ModelAdmissions,
    parked_models,
    turns_in_flight,
)
from tests.patience import PATIENCE

LEASE = 1.5  # seconds
MODEL = "gpt-5.5"


@pytest.fixture
def server(redis_server: str) -> str:
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server


def settings(home: Path, **values: Any) -> Settings:
    limits = {"LEASE_SECONDS": LEASE, **values}
    environ = {f"DESK_{name}": str(value) for name, value in limits.items()}
    return load_settings({"DESK_HOME": str(home), **environ}, home)


@asynccontextmanager
async def gates(url: str, limits: Settings, count: int = 1) -> AsyncIterator[list[Admission]]:
    made = [ModelAdmissions(redis.asyncio.Redis.from_url(url), limits) for _ in range(count)]
    try:
        yield [one.of(RoleModel("codex", MODEL)) for one in made]
    finally:
        for one in made:
            await one.close()


def held(gate: Admission, ticket: str = "", seconds: float = 0.5) -> AbstractAsyncContextManager[None]:
    """Hold a place; waited for so long."""
    return gate.turn(ticket or secrets.token_hex(4), asyncio.get_running_loop().time() + seconds)


def run(work: Callable[[], Coroutine[Any, Any, None]], seconds: float = PATIENCE) -> None:
    asyncio.run(asyncio.wait_for(work(), seconds))


def test_two_workers_share_one_limit(server: str, tmp_path: Path) -> None:
    inside, most = 0, 0

    async def turn(gate: Admission) -> None:
        nonlocal inside, most
        async with held(gate, seconds=PATIENCE):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.05)
            inside -= 1

    async def work() -> None:
        limits = settings(tmp_path, MODEL_TURNS=3)
        async with gates(server, limits, 2) as both:
            await asyncio.gather(*(turn(both[number % 2]) for number in range(16)))

    run(work)
    assert most == 3
    with redis.Redis.from_url(server) as client:
        assert turns_in_flight(client) == {}, "every place was given back"


def test_a_place_is_renewed_while_its_turn_runs_and_lost_with_its_worker(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        limits = settings(tmp_path, MODEL_TURNS=1)
        async with gates(server, limits, 2) as (one, other), held(one):
            await asyncio.sleep(2 * LEASE)
            with pytest.raises(Postponed):
                async with held(other):
                    raise AssertionError("the place was lost while its turn ran")
            assert one._renewal is not None
            one._renewal.cancel()  # as if its process had died
            await asyncio.sleep(1.2 * LEASE)
            async with held(other):
                pass

    run(work)


def test_a_flushed_redis_gets_the_running_turns_again(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with gates(server, settings(tmp_path, MODEL_TURNS=1), 2) as (one, other), held(one):
            with redis.Redis.from_url(server) as client:
                client.flushall()
                while turns_in_flight(client) != {MODEL: 1}:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            with pytest.raises(Postponed):
                async with held(other):
                    raise AssertionError("two turns ran")

    run(work)


def test_one_worker_parks_the_model_for_the_others(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with gates(server, settings(tmp_path, MODEL_TURNS=5), 2) as (one, other):
            await other.check()
            assert await one.park(4, "429") == pytest.approx(4, abs=0.05)
            with pytest.raises(Postponed, match="the rate limit of") as found:
                await one.check()
            assert 1.0 < found.value.seconds < 6
            with pytest.raises(Postponed, match="the rate limit of"):
                async with held(other):
                    raise AssertionError("it was parked")
            await asyncio.sleep(0.3)  # what it knew is old now
            with pytest.raises(Postponed, match="the rate limit of"):
                await other.check()
            with redis.Redis.from_url(server) as client:
                (parked,) = parked_models(client)
            assert (parked.model, parked.reason) == (MODEL, "429")
            assert 0 < parked.seconds <= 4
            await asyncio.sleep(4.1)
            await other.check()
            async with held(other):
                pass

    run(work)


def test_a_park_without_a_reset_time_doubles_and_many_at_once_are_one(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with gates(server, settings(tmp_path), 2) as both:
            seconds = await asyncio.gather(*(both[n % 2].park(None, "429") for n in range(20)))
            assert all(0.74 * PARK_SECONDS < one <= 1.26 * PARK_SECONDS for one in seconds if one is not None)
            with redis.Redis.from_url(server) as client:
                client.delete(limiter_keys.parked_key(MODEL))  # its time is over, and the limit is met again
            again = await both[0].park(None, "429")
            assert again is not None
            assert 1.49 * PARK_SECONDS < again <= 2.51 * PARK_SECONDS
            assert await both[1].park(60, "429") == pytest.approx(60, abs=0.1), "the provider knows better"
            assert await both[1].park(1, "429") == pytest.approx(60, abs=10), "nobody shortens it"

    run(work)


def test_a_provider_that_names_no_sensible_time_is_asked_less_and_less(server: str, tmp_path: Path) -> None:
    """At once, for ever, in thirty years: neither a storm of requests nor a model that is parked for good."""

    async def work() -> None:
        async with gates(server, settings(tmp_path)) as (gate,):
            parked = []
            for _ in range(5):
                parked.append(await gate.park(0.0, "429"))
                with redis.Redis.from_url(server) as client:
                    client.delete(limiter_keys.parked_key(MODEL))
            assert parked == [1.0, 1.0, 2.0, 4.0, 8.0]
            assert await gate.park(1e9, "429") == pytest.approx(192 * 3600 + LONG_SECONDS, abs=1)
            assert await gate.park(float("nan"), "429") is not None

    run(work)


def test_a_plans_limit_rests_all_models_of_the_account_and_then_one_turn_goes_first(
    server: str, tmp_path: Path
) -> None:
    limits = settings(tmp_path, PROVIDER="endpoint", PROVIDER_URL="http://127.0.0.1:1/v1")

    async def work() -> None:
        async with gates(server, limits, 2) as (one, worker):
            other = Admission(one._client, limits, RoleModel("codex", "gpt-5.5-mini"), one._waiters, one._quotas)
            assert await one.park(1.2, "plan", plan=True) == pytest.approx(1.2, abs=0.05)
            for gate in (one, worker, other):
                with pytest.raises(Postponed, match="the plan's limit of") as rest:
                    await gate.check()
                assert rest.value.until is not None
            await asyncio.sleep(1.3)
            found = await asyncio.gather(*(gate.check() for gate in (one, worker, other) * 5), return_exceptions=True)
            assert sum(isinstance(answer, Postponed) for answer in found) == 14
            with redis.Redis.from_url(server) as client:
                client.delete(limiter_keys.rest_keys(one.account)[3])  # nobody was refused for a while
            found = await asyncio.gather(*(gate.check() for gate in (one, worker, other) * 5), return_exceptions=True)
            assert sum(isinstance(answer, Postponed) for answer in found) == 13, "two may follow"
            await asyncio.gather(*(gate.tried(answered=True) for gate in (one, worker, other)))
            await asyncio.gather(*(gate.check() for gate in (one, worker, other) * 5))

    run(work)


def test_a_plan_without_a_time_rests_longer_each_time(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with gates(server, settings(tmp_path)) as (gate,):
            parked = []
            for _ in range(8):
                parked.append(await gate.park(None, "plan", plan=True) or 0.0)
                with redis.Redis.from_url(server) as client:
                    client.delete(limiter_keys.parked_key(gate.account))
            assert parked[0] == pytest.approx(PLAN_PARK_SECONDS, rel=0.26)
            assert parked[2] == pytest.approx(4 * PLAN_PARK_SECONDS, rel=0.26)
            assert parked[-1] == PLAN_PARK_MOST_SECONDS

    run(work)


def test_redis_away_postpones(tmp_path: Path) -> None:
    async def work() -> None:
        async with gates("unix:///no/such/socket", settings(tmp_path, MODEL_TURNS=1)) as (gate,):
            with pytest.raises(Postponed, match="Redis, without which no turn starts"):
                await gate.check()
            with pytest.raises(Postponed, match="Redis, without which no turn starts"):
                async with held(gate):
                    raise AssertionError("no limit was reported")
            assert await gate.park(1, "429") is None

    run(work)
