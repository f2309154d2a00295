"""Admission of turns over all workers: a limit on those in flight on a model, first come first served, and the parking
of a model when its provider limits its rate, or of all models of an account when its plan is used up.

desk:turns:{line}     a sorted set of the turns in flight; the score is the end of each one's lease, in milliseconds
desk:waiting:{line}   a sorted set of the tickets that wait for a place; the score is its arrival, in microseconds
desk:kept:{line}      the same tickets with the time at which each one's place in the line is given up
desk:here:{line}      those that wait now; the others were postponed, and are on their way back
desk:parked:{name}    the reason why the model or account is parked; expires when turns may start again
desk:parks:{name}     the number of recent parks, which makes the next one longer; expires
desk:tried:{name}     how many turns may start together after a long park; gone once one of them was answered
desk:trying:{name}    how many of them started in the last seconds; expires

After a long park one turn goes first. While none is refused twice as many may follow every TRYING_SECONDS, and all as
soon as one was answered: the limit may go on, and then it has been met by one turn.

A line is a model's, or a local server's (`line_of` in `agents.role_models`). Times are the server's, so that workers
need not agree on one. Without Redis no turn starts: a limit that each worker kept for itself would not be one.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import math
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import redis
import redis.asyncio
import redis.exceptions
import structlog

from chordesk.models.errors import Postponed
from chordesk.models.quotas import Quota
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.engine.policy import jittered
from chordesk.tasks.engine.quota_use import Quotas

if TYPE_CHECKING:
    from chordesk.agents.role_models import RoleModel

NOW_LUA = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)"
# KEYS: turns, waiting, kept, here, the model parked, its account parked. ARGV: token, lease, limit, ticket, and for how
# long a ticket that asked counts as there, and its place is kept; times in ms. Answers {1, 0, 0}; {-1, ms, 1 or 2} when
# the model or its account is parked; {0, 0, place} when it has to wait: tickets before it in the line. A ticket that is
# not there lets those behind it pass, but keeps its place.
ENTER_SCRIPT = f"""
{NOW_LUA}
local ticket = ARGV[4]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[2], gone) redis.call('ZREM', KEYS[3], gone) redis.call('ZREM', KEYS[4], gone)
end
redis.call('ZADD', KEYS[2], 'NX', string.format('%.0f', t[1] * 1000000 + t[2]), ticket)
local place = redis.call('ZRANK', KEYS[2], ticket)
local left = math.max(redis.call('PTTL', KEYS[5]), redis.call('PTTL', KEYS[6]), 0)
local here = left > 0 and 0 or tonumber(ARGV[5])
local free = left > 0 and 0 or tonumber(ARGV[3]) - redis.call('ZCARD', KEYS[1])
local at = 0
while at < place and free > 0 do
  local other = redis.call('ZRANGE', KEYS[2], at, at)[1]
  if tonumber(redis.call('ZSCORE', KEYS[4], other) or '0') >= now then free = free - 1 end
  at = at + 1
end
if free > 0 then
  redis.call('ZREM', KEYS[2], ticket) redis.call('ZREM', KEYS[3], ticket) redis.call('ZREM', KEYS[4], ticket)
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
  return {{1, 0, 0}}
end
redis.call('ZADD', KEYS[3], now + left + ARGV[6], ticket)
redis.call('ZADD', KEYS[4], now + here, ticket)
for at = 2, 4 do
  if redis.call('PTTL', KEYS[at]) < left + ARGV[6] then redis.call('PEXPIRE', KEYS[at], left + ARGV[6]) end
end
if left > 0 then return {{-1, left, redis.call('PTTL', KEYS[6]) == left and 2 or 1}} end
return {{0, 0, place}}
"""
# KEYS: waiting, kept, here. ARGV: ticket, ms for which its place is kept. It may come later than its place was lost.
STEP_ASIDE_SCRIPT = f"""
{NOW_LUA}
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1]) end
for at = 1, 2 do
  if redis.call('PTTL', KEYS[at]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[at], ARGV[2]) end
end
"""
# KEYS: turns. ARGV: lease in ms, tokens. A token that has run out comes back: its turn does run.
RENEW_SCRIPT = f"""
{NOW_LUA}
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
"""
# KEYS: model and account: parked, tried, trying. ARGV: ms of a wave. Answers {ms, 1 or 2} when one of them is parked;
# {-ms, 1 or 2} when others try it first, for so long at the most; {0, 1} for a turn that tries, {0, 0} for any other.
CHECK_SCRIPT = """
local left, which = 0, 0
for at = 1, 2 do
  local ms = redis.call('PTTL', KEYS[at])
  if ms > left then left, which = ms, at end
end
if left > 0 then return {left, which} end
local tries = 0
for at = 1, 2 do
  local most = tonumber(redis.call('GET', KEYS[2 + at]) or '-1')
  if most >= 0 then
    if redis.call('EXISTS', KEYS[4 + at]) == 0 then
      redis.call('SET', KEYS[2 + at], math.min(math.max(1, most * 2), 1000000), 'KEEPTTL')
      redis.call('SET', KEYS[4 + at], 1, 'PX', ARGV[1])
    elseif redis.call('INCR', KEYS[4 + at]) > most then
      redis.call('DECR', KEYS[4 + at])
      return {-math.max(redis.call('PTTL', KEYS[4 + at]), 1), at}
    end
    tries = 1
  end
end
return {0, tries}
"""
# KEYS: parked, parks, tried, trying. ARGV: ms until the reset or 0, first ms, most ms, reason, how many parks are
# remembered for; 1 where one turn goes first afterwards, the ms from which on one does anyway, and for how long.
# Many turns meet the limit at once: those that find the model parked only ever make it longer. A provider that limits
# again and again after the time that it names is left alone for twice as long each time.
PARK_SCRIPT = """
redis.call('DEL', KEYS[4])
local left = redis.call('PTTL', KEYS[1])
local asked = tonumber(ARGV[1])
if left > 0 and asked <= left then return left end
local ms = asked
if left <= 0 then
  local parks = redis.call('INCR', KEYS[2])
  if asked == 0 then ms, parks = tonumber(ARGV[2]), parks + 1 end
  ms = math.max(ms, math.min(ms * 2 ^ math.max(0, math.min(parks - 2, 20)), tonumber(ARGV[3])))
end
ms = math.floor(ms)
redis.call('SET', KEYS[1], ARGV[4], 'PX', ms)
redis.call('PEXPIRE', KEYS[2], math.floor(math.max(ms, tonumber(ARGV[2])) * ARGV[5]))
if tonumber(ARGV[6]) > 0 or ms >= tonumber(ARGV[7]) then
  redis.call('SET', KEYS[3], 0, 'PX', ms + tonumber(ARGV[8]))
end
return ms
"""


def turns_key(line: str) -> str:
    return f"desk:turns:{line}"


def waiting_key(line: str) -> str:
    return f"desk:waiting:{line}"


def kept_key(line: str) -> str:
    return f"desk:kept:{line}"


def here_key(line: str) -> str:
    return f"desk:here:{line}"


def parked_key(model: str) -> str:
    return f"desk:parked:{model}"


def rest_keys(name: str) -> tuple[str, str, str, str]:
    """Return the keys of a model's or account's rest: parked, parks, tried, trying."""
    return parked_key(name), f"desk:parks:{name}", f"desk:tried:{name}", f"desk:trying:{name}"


log = structlog.get_logger(__name__)

PARK_SECONDS = 5.0  # when the provider gives no reset time; doubles with each time it was too short
PARK_MOST_SECONDS = 300.0
# The same of a plan, whose windows are hours or days.
PLAN_PARK_SECONDS = 60.0
PLAN_PARK_MOST_SECONDS = 3600.0
LEAST_SECONDS = 1.0
LONG_SECONDS = 60.0  # a park from here on is a wait that a run tells of, and that one turn ends for the others
TRYING_SECONDS = 15.0  # a refusal comes within a second or two
TRIED_SECONDS = 7 * 86_400.0
HELD_BACK_SECONDS = 4.0  # after which a turn asks again whether the first one was answered
_PARKS_KEPT = 4.0  # times the park: a limit that comes back later than this is a new one
CHECK_SECONDS = 0.25  # a model that another worker parked is noticed within this
AWAY_SECONDS = 2.0
# A waiting turn asks the more seldom, the longer it waits: a slow model must not be slowed down by those that wait.
FIRST_POLL_SECONDS, LAST_POLL_SECONDS = 0.02, 1.0
NEXT_POLL_SECONDS = 0.2  # of those that are next in line
WOKEN = 2  # of those that wait in a process, when one of its turns ends
HERE_SECONDS = 4.0  # one that has not asked for longer lets those behind it pass
KEPT_SECONDS = 60.0  # and loses its place in line after so long
# Turns that wait may take this part of a worker's threads; the rest is for models that have a place.
WAITING_PART = 0.75
PUT_OFF_SECONDS = (1.0, 300.0)


@dataclass(frozen=True, slots=True)
class Parked:
    """A model, or an account with all its models, on which no turn starts for now. seconds: time left."""

    model: str
    seconds: float
    reason: str


def parked_models(client: redis.Redis) -> list[Parked]:
    prefix = parked_key("")
    found = []
    for key in _keys(client, prefix):
        left, why = client.pttl(key), client.get(key)
        if left > 0 and why is not None:
            found.append(Parked(_text(key).removeprefix(prefix), left / 1000, _text(why)))
    return found


def unpark(client: redis.Redis, names: Sequence[str]) -> None:
    """Let these be asked again, by one turn first."""
    for name in names:
        parked, parks, tried, trying = rest_keys(name)
        client.set(tried, 0, ex=int(TRIED_SECONDS))
        client.delete(parked, parks, trying)


def turns_in_flight(client: redis.Redis) -> dict[str, int]:
    return _running(client, turns_key(""))


def turns_waiting(client: redis.Redis) -> dict[str, int]:
    """With those that come back soon. Raises redis.exceptions.RedisError."""
    return _running(client, kept_key(""))


def _running(client: redis.Redis, prefix: str) -> dict[str, int]:
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    counts = {_text(key).removeprefix(prefix): client.zcount(key, now, "+inf") for key in _keys(client, prefix)}
    return {line: count for line, count in counts.items() if count}


def _keys(client: redis.Redis, prefix: str) -> list[Any]:
    return sorted(client.scan_iter(match=f"{prefix}*", count=500))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def limit_text(name: str, account: str) -> str:
    """Return what a step waits for. name: of the model, or the account itself when its plan is used up."""
    return f"the plan's limit of {name}" if name == account else f"the rate limit of {name}"


@dataclass(slots=True)
class Waiters:
    """The turns of this process that wait, on all models, in the order in which they came here."""

    most: int  # that may wait at once
    before: dict[str, int] = field(default_factory=dict)  # by ticket, how many others are before it

    def is_full(self, ticket: str) -> bool:
        """Return whether too many wait here, and no other has more before it."""
        return len(self.before) > self.most and self.before[ticket] == max(self.before.values())


class Admission:
    """Admission control of one model in one worker process, on the loop of its Redis client.

    A turn waits for a place as long as the step's deadline leaves a whole turn's time after it. A step that waits holds
    a thread of its worker: where too many do, those with the most others before them are put off.
    """

    def __init__(
        self, client: redis.asyncio.Redis, settings: Settings, model: RoleModel, waiters: Waiters, quotas: Quotas
    ) -> None:
        # The roles load every tool: a look at the lines needs none.
        from chordesk.agents.role_models import account_of, line_of

        self._client, self._settings = client, settings
        self._served, self._model = model, model.model
        self._line = line_of(settings, model)
        self.account = account_of(settings, model)
        self._waiters, self._quotas = waiters, quotas
        self._lease_ms = int(settings.lease_seconds * 1000)
        self._tokens: set[str] = set()
        self._asleep: dict[str, asyncio.Event] = {}  # by ticket
        self._renewal: asyncio.Task[None] | None = None
        self._parks: set[asyncio.Task[float | None]] = set()
        self._checking = asyncio.Lock()
        self._checked_at = float("-inf")
        self._parked_until = {self._model: float("-inf"), self.account: float("-inf")}
        self._entered_at: float | None = None
        self._tries = False  # a turn of this process may be one that goes first
        self._pace = 0.0  # seconds from one entry here to the next, the last ones counting most

    @property
    def limit(self) -> int | None:
        from chordesk.agents.role_models import turns_at_once

        return turns_at_once(self._settings, self._served)

    def wait(self, turn_seconds: float) -> float:
        return 0.0 if self.limit is None else max(0.0, self._settings.step_deadline_seconds - turn_seconds)

    async def check(self) -> None:
        """Raise Postponed while the model or its account is parked, or others have to try it first. Queries Redis four
        times a second, not with each turn."""
        async with self._checking:
            loop = asyncio.get_running_loop()
            if loop.time() - self._checked_at >= CHECK_SECONDS:
                await self._look()
                # Where one turn goes first, each is counted.
                self._checked_at = float("-inf") if self._tries else loop.time()
        self._refuse_parked()

    async def _look(self) -> None:
        model, account = rest_keys(self._model), rest_keys(self.account)
        keys = [model[0], account[0], model[2], account[2], model[3], account[3]]
        left, which = await self._answer(self._client.eval(CHECK_SCRIPT, 6, *keys, int(TRYING_SECONDS * 1000)))
        if left < 0:
            later = jittered(min(-left / 1000, HELD_BACK_SECONDS))
            raise Postponed(f"a first turn on {self._named(which)} after its limit", later)
        if left > 0:
            self._parked_until[self._named(which)] = asyncio.get_running_loop().time() + left / 1000
        else:
            self._parked_until = dict.fromkeys(self._parked_until, float("-inf"))
            self._tries = bool(which)

    def _named(self, which: int) -> str:
        return self.account if which == 2 else self._model

    async def tried(self, *, answered: bool) -> None:
        """A turn has ended that no limit ended. answered: the provider has answered it, so that all others may go."""
        if not self._tries:
            return
        keys = [key for name in (self._model, self.account) for key in rest_keys(name)[1 if answered else 3 :]]
        self._tries = not answered
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            await self._client.delete(*keys)

    @asynccontextmanager
    async def turn(self, ticket: str, until: float) -> AsyncIterator[None]:
        """Hold a place among the turns in flight on the model. Raises Postponed when none is free in time."""
        if (limit := self.limit) is None:
            yield
            return
        token = secrets.token_hex(12)
        await self._enter(token, ticket, limit, until)
        try:
            yield
        finally:
            await self._leave(token)
            self._wake()

    def limited(self, reset_seconds: float | None) -> None:
        """Park the model now, before the limited turn has ended: other turns would meet the same limit."""
        task = asyncio.ensure_future(self.park(reset_seconds, "the provider limits its rate"))
        self._parks.add(task)
        task.add_done_callback(self._parks.discard)

    async def used(self, run_id: str) -> None:
        await self._quotas.used(self.account, run_id)

    async def park(self, reset_seconds: float | None, why: str, *, plan: bool = False) -> float | None:
        """Until the provider's reset time if known. Return the seconds; None without Redis, when only this process
        knows. plan: the account's plan is used up, so that all of its models rest. Never longer than a step waits."""
        asked, name = 0, self.account if plan else self._model
        if reset_seconds is not None and math.isfinite(reset_seconds):
            most_asked = self._settings.limit_wait_hours * 3600 + LONG_SECONDS
            asked = int(min(max(reset_seconds, LEAST_SECONDS), most_asked) * 1000)
        first, most = (PLAN_PARK_SECONDS, PLAN_PARK_MOST_SECONDS) if plan else (PARK_SECONDS, PARK_MOST_SECONDS)
        own, after = jittered(first * 1000), (int(plan), int(LONG_SECONDS * 1000), int(TRIED_SECONDS * 1000))
        try:
            left = await self._client.eval(
                PARK_SCRIPT, 4, *rest_keys(name), asked, own, most * 1000, why, _PARKS_KEPT, *after
            )
        except (redis.exceptions.RedisError, OSError) as error:
            log.warning("park.not_sent", model=self._model, error=str(error))
            return None
        seconds = float(left) / 1000
        self._parked_until[name] = max(self._parked_until[name], asyncio.get_running_loop().time() + seconds)
        log.warning("model.parked", name=name, seconds=round(seconds, 1), reason=why)
        return seconds

    def resting_until(self, *, plan: bool) -> float:
        """Return the loop time until which this process knows the account or the model to be parked."""
        return self._parked_until[self.account if plan else self._model]

    def close(self) -> None:
        for task in (self._renewal, *self._parks):
            if task is not None:
                task.cancel()

    async def _enter(self, token: str, ticket: str, limit: int, until: float) -> None:
        # Counted as ours before Redis answers: should the answer be lost, or the wait be cancelled, it is taken back,
        # and if that fails its lease runs out.
        try:
            await self._wait(token, ticket, limit, until)
        except BaseException as error:
            await self._leave(token)
            await self._step_aside(ticket, error.seconds if isinstance(error, Postponed) else 0.0)
            raise
        finally:
            self._waiters.before.pop(ticket, None)
        now, before = asyncio.get_running_loop().time(), self._entered_at
        self._entered_at = now
        self._pace += 0.2 * (now - before - self._pace) if before is not None else 0.0
        self._tokens.add(token)
        if self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())

    async def _wait(self, token: str, ticket: str, limit: int, until: float) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not await self._ask(token, ticket, limit):
            place = self._waiters.before[ticket]
            if self._waiters.is_full(ticket):
                least, most = PUT_OFF_SECONDS
                ahead = place - self._waiters.most / 2
                raise Postponed(self._place(limit, place), jittered(min(max(least, self._pace * ahead), most)))
            if loop.time() >= until:
                raise Postponed(self._place(limit, place), jittered(1.0))
            most = NEXT_POLL_SECONDS if place < limit else LAST_POLL_SECONDS
            pause = min(most, FIRST_POLL_SECONDS + (loop.time() - began) / 20)
            await self._sleep(ticket, pause * random.uniform(0.75, 1.25))

    async def _sleep(self, ticket: str, seconds: float) -> None:
        self._asleep[ticket] = woken = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await woken.wait()
        except TimeoutError:
            return
        finally:
            del self._asleep[ticket]

    def _wake(self) -> None:
        """Let the first waiters ask at once: a place is free."""
        for ticket in islice(filter(self._asleep.__contains__, self._waiters.before), WOKEN):
            self._asleep[ticket].set()

    async def _ask(self, token: str, ticket: str, limit: int) -> bool:
        """Ask for a place, and return whether there is one. Raises Postponed while the model is parked."""
        keys = [turns_key(self._line), *self._line_keys(), parked_key(self._model), parked_key(self.account)]
        times = int(HERE_SECONDS * 1000), int(KEPT_SECONDS * 1000)
        entered, left, place = await self._answer(
            self._client.eval(ENTER_SCRIPT, len(keys), *keys, token, self._lease_ms, limit, ticket, *times)
        )
        if entered < 0:
            self._parked_until[self._named(place)] = asyncio.get_running_loop().time() + left / 1000
            self._refuse_parked()
        self._waiters.before[ticket] = place
        return bool(entered == 1)

    async def _step_aside(self, ticket: str, seconds: float) -> None:
        """Let those behind pass for so long, and keep the ticket's place."""
        kept = int((seconds + KEPT_SECONDS) * 1000)
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            await self._client.eval(STEP_ASIDE_SCRIPT, 3, *self._line_keys(), ticket, kept)

    def _line_keys(self) -> list[str]:
        return [one(self._line) for one in (waiting_key, kept_key, here_key)]

    def _place(self, limit: int, place: int) -> str:
        turns = "one turn" if limit == 1 else f"{limit} turns"
        why = "DESK_MODEL_TURNS" if self._settings.model_turns is not None else "the server's slots"
        return f"a place among {turns} at once on {self._line} ({why}); {place} are before it"

    async def _leave(self, token: str) -> None:
        self._tokens.discard(token)
        with contextlib.suppress(redis.exceptions.RedisError, OSError):
            await self._client.zrem(turns_key(self._line), token)

    async def _renew(self) -> None:
        while self._tokens:
            await asyncio.sleep(self._lease_ms / 3000)
            tokens = list(self._tokens)
            if not tokens:
                break
            try:
                turns = turns_key(self._line)
                await self._client.eval(RENEW_SCRIPT, 1, turns, self._lease_ms, *tokens)
                if left := [token for token in tokens if token not in self._tokens]:
                    await self._client.zrem(turns_key(self._line), *left)
            except (redis.exceptions.RedisError, OSError) as error:
                log.warning("admission.not_renewed", turns=len(tokens), error=str(error))
        self._renewal = None

    def _refuse_parked(self) -> None:
        now = asyncio.get_running_loop().time()
        name, end = max(self._parked_until.items(), key=lambda one: one[1])
        if (seconds := end - now) > 0:
            # Spread over a part of the time that all have waited, lest they meet the limit together again.
            later = seconds + random.uniform(0.0, min(5.0, 0.25 * seconds + 0.5))
            lasts = name == self.account or seconds >= LONG_SECONDS
            until = utcnow() + dt.timedelta(seconds=seconds) if lasts else None
            raise Postponed(limit_text(name, self.account), later, until)

    async def _answer(self, command: Any) -> Any:
        try:
            return await command
        except (redis.exceptions.RedisError, OSError) as error:
            raise Postponed(f"Redis, without which no turn starts: {error}", jittered(AWAY_SECONDS)) from error


class ModelAdmissions:
    """The gates of one worker process, one for each model; for the loop that the client belongs to."""

    def __init__(self, client: redis.asyncio.Redis, settings: Settings) -> None:
        self._client, self._settings = client, settings
        self._gates: dict[tuple[str, str], Admission] = {}
        self.quotas = Quotas(client)
        self._notes: set[asyncio.Task[None]] = set()
        self._waiters = Waiters(max(1, int(settings.codex_turns * WAITING_PART)))

    def of(self, model: RoleModel) -> Admission:
        key = (model.runtime, model.model)
        if key not in self._gates:
            self._gates[key] = Admission(self._client, self._settings, model, self._waiters, self.quotas)
        return self._gates[key]

    def note(self, account: str, quota: Quota) -> None:
        """Keep what a provider told of an account's plan. For the loop's thread; waits for nothing."""
        task = asyncio.ensure_future(self.quotas.note(account, quota))
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def close(self) -> None:
        for gate in self._gates.values():
            gate.close()
        await self._client.aclose()
