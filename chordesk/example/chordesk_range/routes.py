"""`GET /checkups`: the last check-ups with their notes."""

from __future__ import annotations

import json

from fastapi import APIRouter
from sqlmodel import col, select

from chordesk.plugins import Context, Frozen, JsonRoute, Run, Turn

router = APIRouter(tags=["range"], route_class=JsonRoute)


class CheckupRow(Frozen):
    """One check-up. note: None while it is not written."""

    run: str
    symbol: str
    state: str
    note: str | None


@router.get("/checkups")
def checkups(context: Context) -> list[CheckupRow]:
    """List the last check-ups, the newest first."""
    newest = select(Run).where(Run.kind == "checkup").order_by(col(Run.created_at).desc()).limit(50)
    with context.store.read() as session:
        runs = session.exec(newest).all()
        answered = (col(Turn.run_id).in_([run.id for run in runs]), Turn.outcome == "completed")
        notes = {turn.run_id: json.loads(turn.text)["summary"] for turn in session.exec(select(Turn).where(*answered))}
    return [
        CheckupRow(run=run.id, symbol=run.params["symbol"], state=run.state, note=notes.get(run.id)) for run in runs
    ]
