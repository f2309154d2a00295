"""How much of an account's plan is used up, and by which runs, as all workers see it: in Redis.

desk:quota:{account}            what the provider told last, JSON; expires
desk:quota-runs:{account}       the runs that have used some, by the time of their last turn
desk:quota-use:{account}:{run}  a run's use: by window its last percent, its end and the points used so far; expires
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import redis
import redis.asyncio
import redis.exceptions
import structlog
from pydantic import ValidationError
from sqlmodel import Session, col, select

from chordesk.models.quotas import Quota, forecast
from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run

KEPT_SECONDS = 9 * 86_400  # of a plan: its longest window is a week
USE_SECONDS = 90 * 86_400
MOST_RUNS = 200
LOOKED_AT = 20  # runs of a kind

_QUOTA, _RUNS = "desk:quota:", "desk:quota-runs:"
# KEYS: use, runs. ARGV: run, now in s, seconds that both are kept, then by window: name, used, end in s.
# A lower percent is a window that begins anew when its end has moved; otherwise it is an older message.
_USED_SCRIPT = """
for at = 4, #ARGV, 3 do
  local name, used, ends = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local last = tonumber(redis.call('HGET', KEYS[1], name .. ':last'))
  local before = tonumber(redis.call('HGET', KEYS[1], name .. ':ends') or '0')
  local more = 0
  if last then
    if used >= last then more = used - last
    elseif ends > before + 300 then more = used
    else used, ends = last, before end
  end
  redis.call('HINCRBY', KEYS[1], name, more)
  redis.call('HSET', KEYS[1], name .. ':last', used, name .. ':ends', ends)
end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[3])
"""

log = structlog.get_logger(__name__)


def _use_key(account: str, run_id: str) -> str:
    return f"desk:quota-use:{account}:{run_id}"


class Quotas:
    """The plans that this process knows of, by account; for the loop of its client."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client
        self.known: dict[str, Quota] = {}

    async def note(self, account: str, quota: Quota) -> None:
        self.known[account] = quota
        await self._tell(self._client.set(f"{_QUOTA}{account}", quota.model_dump_json(), ex=KEPT_SECONDS))

    async def used(self, account: str, run_id: str) -> None:
        """Add what a plan lost since a run's last turn to what the run used."""
        if (quota := self.known.get(account)) is None:
            return
        windows: list[str | int] = []
        for one in quota.windows:
            windows += [one.name, one.used, int(one.resets_at.timestamp()) if one.resets_at is not None else 0]
        now = int(utcnow().timestamp())
        keys = _use_key(account, run_id), f"{_RUNS}{account}"
        await self._tell(self._client.eval(_USED_SCRIPT, 2, *keys, run_id, now, USE_SECONDS, *windows))

    async def _tell(self, command: object) -> None:
        try:
            await command  # type: ignore[misc]
        except (redis.exceptions.RedisError, OSError) as error:
            log.warning("quota.not_kept", error=str(error))


def quotas(client: redis.Redis) -> dict[str, Quota]:
    """Return what is known of each account's plan. Raises redis.exceptions.RedisError."""
    found: dict[str, Quota] = {}
    for key in sorted(client.scan_iter(match=f"{_QUOTA}*", count=500)):
        text, name = client.get(key), _text(key)
        try:
            found[name.removeprefix(_QUOTA)] = Quota.model_validate_json(text or "")
        except ValidationError:  # of another version
            continue
    return found


def forecasts(client: redis.Redis, session: Session, account: str, quota: Quota, kinds: Sequence[str]) -> list[str]:
    """Return by kind of run whether one more fits, by the newest runs that were done."""
    members = client.zrevrange(f"{_RUNS}{account}", 0, MOST_RUNS - 1)
    ids = [_text(one) for one in members]
    done = select(Run.id, Run.kind).where(col(Run.id).in_(ids), Run.state == RunState.DONE)
    kind_of = {str(id_): str(kind) for id_, kind in session.exec(done).all()}
    now = utcnow()
    said = []
    for kind in kinds:
        own = [one for one in ids if kind_of.get(one) == kind][:LOOKED_AT]
        said.append(forecast(quota, kind, [_use_of(client, account, one) for one in own], now))
    return said


def _use_of(client: redis.Redis, account: str, run_id: str) -> Mapping[str, int]:
    told = {_text(name): value for name, value in client.hgetall(_use_key(account, run_id)).items()}
    return {name: int(value) for name, value in told.items() if ":" not in name}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
