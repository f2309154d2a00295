"""What a turn's subject says of its market: the regime, kept with the run, and base rates of the subject's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlmodel import select

from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tools.regime import base_rates, rate_row, rate_rows, regime_row


def with_market(desk: Desk, run_id: str, brief: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subject with the regime after its constraints, and the base rates of its names at its end."""
    context = desk.tool_context(run_id)
    rates = base_rates(context, _symbols(brief))
    rows = (
        rate_rows(rates)
        if "symbols" in brief
        else [{"symbol": symbol, **rate_row(rate)} for symbol, found in rates.items() for rate in found]
    )
    shared = {"constraints": brief["constraints"], "regime": kept_regime(desk, run_id)}
    return {**shared, **brief, **({"baseRates": rows} if rows else {})}


def _symbols(brief: Mapping[str, Any]) -> list[str]:
    """Return the names that a subject is about; a voice's board has base rates of its own."""
    if "symbol" in brief:
        return [brief["symbol"]]
    return list(brief.get("symbols") or [row["symbol"] for row in brief.get("verdicts", ())])


def kept_regime(desk: Desk, run_id: str) -> dict[str, Any]:
    """Return the regime of a run's market on its day: the first turn of a day keeps it with the run."""
    context = desk.tool_context(run_id)
    today = context.clock.session().isoformat()
    with desk.store.read() as session:
        found = session.exec(select(Run.regime).where(Run.id == run_id)).one()  # the row is large
    kept = dict(found or {})
    if kept.get("date") != today:
        kept = {"date": today, **regime_row(context)}
        with desk.store.session() as session:
            session.get_one(Run, run_id).regime = kept
    return kept
