"""The line of turns that wait for a place, over all workers: first come first served, on a real Redis."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from chordesk.agents.gateway.facts import ServerFacts, keep_facts
from chordesk.agents.role_models import RoleModel
from chordesk.models.errors import Postponed
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.engine import limits as admission
from chordesk.tasks.engine.limits import Admission, ModelAdmissions, turns_in_flight, turns_waiting
from tests.patience import PATIENCE

HOSTED = RoleModel("codex", "gpt-5.5")
LOCAL = RoleModel("local", "qwen3:8b")
URL = "http://127.0.0.1:11434/v1"


@pytest.fixture
def server(redis_server: str) -> str:
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server


def settings(home: Path, **values: Any) -> Settings:
    environ = {f"DESK_{name}": str(value) for name, value in values.items()}
    return load_settings({"DESK_HOME": str(home), "DESK_LOCAL_URL": URL, **environ}, home)


@asynccontextmanager
async def workers(url: str, limits: Settings, count: int) -> AsyncIterator[list[ModelAdmissions]]:
    made = [ModelAdmissions(redis.asyncio.Redis.from_url(url), limits) for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            await one.close()


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), PATIENCE))


class Turns:
    """Turns that are begun one after the other, and the order in which they got their place."""

    def __init__(self, url: str) -> None:
        self.entered: list[str] = []
        self._client = redis.Redis.from_url(url)
        self._running: list[asyncio.Task[None]] = []

    async def begin(self, gate: Admission, ticket: str, seconds: float = PATIENCE) -> asyncio.Task[None]:
        """Begin a turn, and return it once it waits in line."""
        before = sum(turns_waiting(self._client).values())
        task = asyncio.create_task(self._turn(gate, ticket, seconds))
        while sum(turns_waiting(self._client).values()) == before:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        self._running.append(task)
        return task

    async def _turn(self, gate: Admission, ticket: str, seconds: float) -> None:
        async with gate.turn(ticket, asyncio.get_running_loop().time() + seconds):
            self.entered.append(ticket)
            await asyncio.sleep(0.01)

    async def end(self) -> list[str]:
        await asyncio.gather(*self._running)
        return self.entered


def now() -> float:
    return asyncio.get_running_loop().time()


def test_the_first_to_come_is_the_first_to_enter_whichever_worker_it_is_of(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with workers(server, settings(tmp_path, MODEL_TURNS=1), 3) as made:
            gates, turns, names = [one.of(HOSTED) for one in made], Turns(server), [f"step-{n}" for n in range(12)]
            async with gates[0].turn("first", now()):
                for number, name in enumerate(reversed(names)):
                    await turns.begin(gates[number % 3], name)
                with redis.Redis.from_url(server) as client:
                    assert (turns_in_flight(client), turns_waiting(client)) == ({"gpt-5.5": 1}, {"gpt-5.5": 12})
            assert await turns.end() == names[::-1], "by arrival, and not by name"
            with redis.Redis.from_url(server) as client:
                assert (turns_in_flight(client), turns_waiting(client)) == ({}, {})

    run(work)


def test_a_turn_that_was_postponed_keeps_its_place_and_holds_up_nobody(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with workers(server, settings(tmp_path, MODEL_TURNS=1), 2) as made:
            one, other = (each.of(HOSTED) for each in made)
            turns = Turns(server)
            async with one.turn("first", now()):
                with pytest.raises(Postponed, match=r"one turn at once on gpt-5\.5 .*; 0 are before it"):
                    await (await turns.begin(one, "postponed", 0.0))
                turns = Turns(server)
                await turns.begin(other, "later")
                await turns.begin(other, "last")
            while turns.entered != ["later"]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            # "last" may have entered by now: nobody waits for one that is away.
            await turns.end()
            async with one.turn("next", now()):
                await turns.begin(other, "after")
                comes_back = asyncio.create_task(turns._turn(other, "postponed", PATIENCE))
                await asyncio.sleep(0.3)
            await turns.end()
            await comes_back
            assert turns.entered[-2:] == ["postponed", "after"], "in the order in which they came first"

    run(work)


def test_a_cancelled_turn_lets_the_others_pass_at_once(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with workers(server, settings(tmp_path, MODEL_TURNS=1), 1) as (made,):
            gate, turns = made.of(HOSTED), Turns(server)
            async with gate.turn("first", now()):
                stopped = asyncio.create_task(turns._turn(gate, "stopped", PATIENCE))
                await asyncio.sleep(0.1)
                stopped.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await stopped
                await turns.begin(gate, "next")
            assert await turns.end() == ["next"]

    run(work)


def test_a_dead_workers_turns_lose_their_place(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "HERE_SECONDS", 0.3)
    monkeypatch.setattr(admission, "KEPT_SECONDS", 1.0)

    async def work() -> None:
        async with workers(server, settings(tmp_path, MODEL_TURNS=1), 2) as (alive, dead):
            gate, turns = alive.of(HOSTED), Turns(server)
            async with gate.turn("first", now()):
                assert not await dead.of(HOSTED)._ask("token", "lost", 1), "its last question, before it died"
                await turns.begin(gate, "next")
            assert await turns.end() == ["next"]
            async with gate.turn("another", now()):
                await asyncio.sleep(1.2)
                with pytest.raises(Postponed):
                    await turns._turn(gate, "last", 0.0)
                with redis.Redis.from_url(server) as client:
                    assert turns_waiting(client) == {"gpt-5.5": 1}

    run(work)


def test_turns_that_wait_leave_threads_to_other_models(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        limits = settings(tmp_path, MODEL_TURNS=1, CODEX_TURNS=8)
        async with workers(server, limits, 1) as (made,):
            gate, turns = made.of(HOSTED), Turns(server)
            async with gate.turn("first", now()):
                for number in range(6):  # three quarters of its threads
                    await turns.begin(gate, f"step-{number}")
                late = await turns.begin(gate, "late")
                with pytest.raises(Postponed, match="6 are before it"):
                    await late
                turns._running.remove(late)
                async with made.of(RoleModel("codex", "another")).turn("step-9", now()):
                    pass
                with redis.Redis.from_url(server) as client:
                    assert turns_waiting(client) == {"gpt-5.5": 7}, "with the one that comes back"
            assert await turns.end() == [f"step-{number}" for number in range(6)]

    run(work)


def facts(model: str = LOCAL.model, **values: Any) -> ServerFacts:
    at = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)
    return ServerFacts(url=URL, server="ollama", version="1", model=model, asked_at=at, **values)


def test_a_local_server_has_as_many_turns_as_it_has_slots(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        limits = settings(tmp_path)
        async with workers(server, limits, 2) as (one, other):
            gate = one.of(LOCAL)
            assert gate.limit == 1, "unknown"
            async with gate.turn("first", now()):
                with pytest.raises(Postponed, match=r"http://127\.0\.0\.1:11434/v1 on .* \(the server's slots\)"):
                    await Turns(server)._turn(other.of(LOCAL), "second", 0.0)
                with pytest.raises(Postponed):
                    await Turns(server)._turn(other.of(RoleModel("local", "gemma3:4b")), "another model", 0.0)
                async with other.of(HOSTED).turn("hosted", now()):
                    pass
                keep_facts(limits.home, facts(slots=2))
                await Turns(server)._turn(other.of(LOCAL), "second", PATIENCE)

    run(work)


def test_the_wait_leaves_time_for_the_turn(server: str, tmp_path: Path) -> None:
    async def work() -> None:
        limits = settings(tmp_path, TURN_SECONDS=1200, STEP_DEADLINE_SECONDS=1500)
        async with workers(server, limits, 1) as (made,):
            assert made.of(LOCAL).wait(1200.0) == 300.0
            assert made.of(LOCAL).wait(1400.0) == 100.0
            assert made.of(HOSTED).wait(1200.0) == 0.0, "without a limit nothing waits"

    run(work)
