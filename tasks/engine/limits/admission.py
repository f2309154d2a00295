"""Admission of turns over all workers: a limit on those in flight on a model, and the parking of a model when its
provider limits its rate.

desk:turns:{model}    a sorted set of the turns in flight; the score is the end of each one's lease, in milliseconds
desk:parked:{model}   the reason why the model is parked; expires when turns may start again
desk:parks:{model}    the number of recent parks, which makes the next one longer; expires

Times are the server's, so that workers need not agree on one. Without Redis no turn starts: a limit that each worker
kept for itself would not be one.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
import redis.exceptions
import structlog

from models.errors import Postponed, RedisDown
from models.settings import Settings
from tasks.engine.limits import limiter_keys
from tasks.engine.policy import jittered

log = structlog.get_logger(__name__)

PARK_SECONDS = 5.0  # when the provider gives no reset time; doubles with each time it was too short
PARK_MOST_SECONDS = 300.0
LEAST_SECONDS = 1.0
_PARKS_KEPT = 4.0  # times the park: a limit that comes back later than this is a new one
CHECK_SECONDS = 0.25  # a model that another worker parked is noticed within this
AWAY_SECONDS = 2.0
POLL_SECONDS = (0.02, 0.2)


@dataclass(frozen=True, slots=True)
class Parked:
    """A model on which no turn starts for now. seconds: time left."""

    model: str
    seconds: float
    reason: str


def parked_models(client: redis.Redis) -> list[Parked]:
    """Return every parked model. Raises redis.exceptions.RedisError when Redis does not answer."""
    prefix = limiter_keys.parked_key("")
    found = []
    for key in _keys(client, prefix):
        left, why = client.pttl(key), client.get(key)
        if left > 0 and why is not None:
            found.append(Parked(_text(key).removeprefix(prefix), left / 1000, _text(why)))
    return found


def turns_in_flight(client: redis.Redis) -> dict[str, int]:
    """Return turns in flight by model, where they are limited (DESK_MODEL_TURNS). Raises
    redis.exceptions.RedisError."""
    prefix = limiter_keys.turns_key("")
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    counts = {_text(key).removeprefix(prefix): client.zcount(key, now, "+inf") for key in _keys(client, prefix)}
    return {model: count for model, count in counts.items() if count}


def _keys(client: redis.Redis, prefix: str) -> list[Any]:
    return sorted(client.scan_iter(match=f"{prefix}*", count=500))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class Admission:
    """Admission control of one model in one worker process, on the loop of its Redis client.

    A turn waits for a slot as long as the step's deadline leaves a whole turn's time after it.
    """

    def __init__(self, client: redis.asyncio.Redis, settings: Settings, model: str) -> None:
        self._client = client
        self._model = model
        self._limit = settings.model_turns
        self._lease_ms = int(settings.lease_seconds * 1000)
        self._wait = max(0.0, settings.step_deadline_seconds - settings.turn_seconds)
        self._tokens: set[str] = set()
        self._renewal: asyncio.Task[None] | None = None
        self._parks: set[asyncio.Task[float | None]] = set()
        self._checked_at = float("-inf")
        self._parked_until = float("-inf")

    @property
    def wait_seconds(self) -> float:
        return self._wait if self._limit is not None else 0.0

    async def check(self) -> None:
        """Raise Postponed while the model is parked. Queries Redis four times a second, not with each turn."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = loop.time()
            try:
                left = await self._answer(self._client.pttl(limiter_keys.parked_key(self._model)))
            except Postponed:
                self._checked_at = float("-inf")
                raise
            self._parked_until = loop.time() + max(left, 0) / 1000
        self._refuse_parked(self._parked_until - loop.time())

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Hold a slot among the turns in flight on the model. Raises Postponed when none is free in time."""
        if self._limit is None:
            yield
            return
        token = secrets.token_hex(12)
        await self._enter(token, self._limit)
        try:
            yield
        finally:
            await self._leave(token)

    def limited(self, reset_seconds: float | None) -> None:
        """Park the model now, before the limited turn has ended: other turns would meet the same limit."""
        task = asyncio.ensure_future(self.park(reset_seconds, "the provider limits its rate"))
        self._parks.add(task)
        task.add_done_callback(self._parks.discard)

    async def park(self, reset_seconds: float | None, why: str) -> float | None:
        """Park the model for all workers, until the provider's reset time if it is known. Return the seconds; None
        without Redis, when it is parked in this process alone."""
        asked = 0 if reset_seconds is None else int(max(reset_seconds, LEAST_SECONDS) * 1000)
        own, most = jittered(PARK_SECONDS * 1000), PARK_MOST_SECONDS * 1000
        keys = [limiter_keys.parked_key(self._model), limiter_keys.parks_key(self._model)]
        try:
            left = await self._client.eval(limiter_keys.PARK, 2, *keys, asked, own, most, why, _PARKS_KEPT)
        except (redis.exceptions.RedisError, OSError) as error:
            log.warning("park.not_sent", model=self._model, error=str(error))
            return None
        seconds = float(left) / 1000
        self._parked_until = max(self._parked_until, asyncio.get_running_loop().time() + seconds)
        log.warning("model.parked", model=self._model, seconds=round(seconds, 1), reason=why)
        return seconds

    def close(self) -> None:
        for task in (self._renewal, *self._parks):
            if task is not None:
                task.cancel()

    async def _enter(self, token: str, limit: int) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait
        keys = [limiter_keys.turns_key(self._model), limiter_keys.parked_key(self._model)]
        while True:
            # Counted as ours before Redis answers: should the answer be lost, or the wait be cancelled, it is
            # taken back, and if that fails its lease runs out.
            try:
                entered, left = await self._answer(
                    self._client.eval(limiter_keys.ENTER, 2, *keys, token, self._lease_ms, limit)
                )
            except BaseException:
                await self._leave(token)
                raise
            if entered == 1:
                break
            self._refuse_parked(left / 1000)
            if loop.time() >= until:
                raise Postponed(f"no place among {limit} turns on {self._model} (DESK_MODEL_TURNS)", jittered(1.0))
            await asyncio.sleep(random.uniform(*POLL_SECONDS))
        self._tokens.add(token)
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())

    async def _leave(self, token: str) -> None:
        self._tokens.discard(token)
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            await self._client.zrem(limiter_keys.turns_key(self._model), token)

    async def _renew(self) -> None:
        while self._tokens:
            await asyncio.sleep(self._lease_ms / 3000)
            tokens = list(self._tokens)
            if not tokens:
                break
            try:
                turns = limiter_keys.turns_key(self._model)
                await self._client.eval(limiter_keys.RENEW, 1, turns, self._lease_ms, *tokens)
                if left := [token for token in tokens if token not in self._tokens]:
                    await self._client.zrem(limiter_keys.turns_key(self._model), *left)
            except (redis.exceptions.RedisError, OSError) as error:
                log.warning("admission.not_renewed", turns=len(tokens), error=str(error))
        self._renewal = None

    def _refuse_parked(self, seconds: float) -> None:
        if seconds > 0:
            # Spread over a part of the time that all have waited, lest they meet the limit together again.
            later = seconds + random.uniform(0.0, min(5.0, 0.25 * seconds + 0.5))
            raise Postponed(f"{self._model} is parked for {seconds:.0f} s more", later)

    async def _answer(self, command: Any) -> Any:
        try:
            return await command
        except (redis.exceptions.RedisError, OSError) as error:
            down = RedisDown(f"no turn may start: {error}")
            raise Postponed(str(down), jittered(AWAY_SECONDS)) from error


class ModelAdmissions:
    """The gates of one worker process, one for each model; for the loop that the client belongs to."""

    def __init__(self, client: redis.asyncio.Redis, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._gates: dict[str, Admission] = {}

    def of(self, model: str) -> Admission:
        """Return the gate of a model's turns."""
        if model not in self._gates:
            self._gates[model] = Admission(self._client, self._settings, model)
        return self._gates[model]

    async def close(self) -> None:
        for gate in self._gates.values():
            gate.close()
        await self._client.aclose()
