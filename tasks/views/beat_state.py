"""The state of beat, which sends what is scheduled: RedBeat keeps it in Redis."""

from __future__ import annotations

import datetime as dt
import json
from typing import cast

import redis
from redbeat.decoder import RedBeatJSONDecoder

from models.research import Frozen
from tasks.worker.schedule import BEAT_PREFIX

LOCK, DUE = f"{BEAT_PREFIX}:lock", f"{BEAT_PREFIX}:schedule"


class BeatEntry(Frozen):
    """One entry of the schedule. last: when it was last sent, None before the first time; next: when it is due."""

    name: str
    last: dt.datetime | None
    next: dt.datetime


class BeatState(Frozen):
    """Whether a beat runs, which its lock of some seconds shows, and its entries, the next one first; those of a beat
    that has ended stay known."""

    running: bool
    entries: list[BeatEntry]


def beat_state(client: redis.Redis) -> BeatState:
    """Return the state of beat. Raises redis.RedisError."""
    due = cast("list[tuple[bytes, float]]", client.zrange(DUE, 0, -1, withscores=True))
    return BeatState(running=bool(client.exists(LOCK)), entries=[_entry(client, key.decode(), at) for key, at in due])


def _entry(client: redis.Redis, key: str, at: float) -> BeatEntry:
    meta = json.loads(cast("bytes | None", client.hget(key, "meta")) or b"{}", cls=RedBeatJSONDecoder)
    # Before its first run the entry has the time at which it was made, and no run counted.
    last = meta.get("last_run_at") if meta.get("total_run_count") else None
    return BeatEntry(name=key.removeprefix(BEAT_PREFIX), last=last, next=dt.datetime.fromtimestamp(at, dt.UTC))
