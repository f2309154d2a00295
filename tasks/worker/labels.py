"""The label of a run: its provider, model, market and market time. A worker that has another model, or cannot have
the run's market, refuses its steps, so the label stays true."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Any

from chordesk.agents.role_models import RULES, models_in_use, role_models, voice_tiers
from chordesk.models.errors import UsageError
from chordesk.models.settings.snapshots import snapshot
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tools.market.protocol import MarketData

REMEDY = "open runs with the workers' own DESK_PROVIDER and DESK_MODEL"


def label_of(desk: Desk, market: MarketData | None = None) -> dict[str, Any]:
    """Return the label of a run that this process opens, by column. market: where it is on another day than this
    process."""
    market = market or desk.market
    return {
        "provider": desk.settings.provider,
        "model": desk.settings.model_label,
        "market": market.name,
        "market_now": market.clock.now(),
    }


@lru_cache(maxsize=256)
def require_model(desk: Desk, run_id: str) -> None:
    """Raise UsageError when this process has another model than the run's label names, or cannot have its market.
    Neither ever changes, so the database is asked once a run."""
    with desk.store.read() as session:
        run = session.get_one(Run, run_id)
    here = desk.settings
    if (run.provider, run.model) != (here.provider, here.model_label):
        raise UsageError(f"run {run.id} has the model {run.model}; this worker has {here.model_label}", remedy=REMEDY)
    _require_models(desk, run)
    desk.market_of(run_id)


def _require_models(desk: Desk, run: Run) -> None:
    """Raise UsageError when a role of the run has a model that this process does not serve, or the run was opened for
    another endpoint."""
    theirs = desk.settings_of(run.id)
    wanted, here = role_models(theirs), role_models(desk.settings)
    served = {(one.runtime, one.model) for one in (*models_in_use(desk.settings), RULES)}
    for role, one in wanted.items():
        if (one.runtime, one.model) not in served:
            had = here[role].model
            raise UsageError(f"in run {run.id} {role} has the model {one.model}; this worker has {had}", remedy=REMEDY)
    for one in voice_tiers(theirs):
        if (one.runtime, one.model) not in served:
            raise UsageError(f"run {run.id} has voices on {one.model}; this worker does not", remedy=REMEDY)
    kept = run.settings or {}
    for name in ("provider_url", "local_url"):
        url = snapshot(desk.settings)[name]
        if kept.get(name, url) != url:
            raise UsageError(f"run {run.id} is for {kept[name]}; this worker has {url}", remedy=REMEDY)


def moment(market: str, at: dt.datetime) -> str:
    """Return a market and its time as text."""
    return f"{market} at {at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
