"""What a run is labelled with: who speaks in it, and on which market and day. It is opened by one process and worked
on by others; the label stays true because a worker that differs does not do its steps."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Any

from models.errors import UsageError
from models.tables import Run
from tasks.bootstrap import Desk
from tools.market.protocol import MarketData

REMEDY = "open runs with the workers' own DESK_PROVIDER, DESK_MODEL, DESK_MARKET and DESK_REPLAY_DATE"


def label_of(desk: Desk) -> dict[str, Any]:
    """The label of a run that this process opens, by column."""
    return {
        "provider": desk.settings.provider,
        "model": desk.settings.spoken_by,
        "market": desk.market.name,
        "market_now": desk.market.clock.now(),
    }


@lru_cache(maxsize=256)
def require_speaker(desk: Desk, run_id: str) -> None:
    """Raises UsageError when this process speaks with another model than the run's label names, or on another market or
    day. Neither ever changes, so a run is asked about once."""
    run = _run(desk, run_id)
    here = desk.settings
    if (run.provider, run.model) != (here.provider, here.spoken_by):
        raise UsageError(f"in run {run.id} {run.model} speaks; this worker has {here.spoken_by}", remedy=REMEDY)
    _require_market(run, desk.market)


@lru_cache(maxsize=256)
def require_market(desk: Desk, run_id: str) -> None:
    """Raises UsageError when this process is on another market than the run, or replays another day."""
    _require_market(_run(desk, run_id), desk.market)


def _run(desk: Desk, run_id: str) -> Run:
    with desk.store.read() as session:
        return session.get_one(Run, run_id)


def _require_market(run: Run, market: MarketData) -> None:
    if run.market != market.name or (market.name == "replay" and run.market_now != market.clock.now()):
        seen, here = moment(run.market, run.market_now), moment(market.name, market.clock.now())
        raise UsageError(f"run {run.id} is on {seen}; this worker is on {here}", remedy=REMEDY)


def moment(market: str, at: dt.datetime) -> str:
    """A market and its time in words."""
    return f"{market} at {at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
