"""The view of what a run that begins may spend: budgets, prices, and the last run of its kind."""

from __future__ import annotations

from sqlmodel import Session, col, select

from agents.role_models import models_in_use
from models.prices import prices
from models.research import Frozen
from models.settings import Settings
from models.settings.snapshots import in_run
from models.tables.runs import Run
from tasks.engine.budgets import RULES, BudgetUse, Cost, usage_of_budgets


class Outlook(Frozen):
    """What a run may spend. prices: text by model, None where it is unknown; empty for rules, which are no model.
    last_tokens, last_cost: of the last run of this kind that has ended, None before the first."""

    kind: str
    budgets: list[BudgetUse]
    prices: dict[str, str | None]
    last_tokens: int | None
    last_cost: Cost | None


def outlook(session: Session, settings: Settings, run: Run) -> Outlook:
    """Return what the run may spend. settings: of this process; the run's own are in their place."""
    settings = in_run(settings, run.settings, run.account)
    known = prices(settings.prices)
    used = [one for one in models_in_use(settings) if one.provider(settings) != RULES]
    models = dict.fromkeys(model for one in used for model in one.models)
    ended = (Run.kind == run.kind, col(Run.id) < run.id, col(Run.finished_at).is_not(None))
    last = session.exec(select(Run.summary).where(*ended).order_by(col(Run.id).desc()).limit(1)).first() or {}
    return Outlook(
        kind=run.kind,
        budgets=list(usage_of_budgets(session, settings, run.id)),
        prices={model: str(known[model]) if model in known else None for model in models},
        last_tokens=last.get("tokens"),
        last_cost=Cost.model_validate(last["cost"]) if "cost" in last else None,
    )
