"""`GET /checkups`: the last check-ups with their notes."""

from __future__ import annotations

from fastapi import APIRouter
from sqlmodel import col, select

from chordesk.plugins import Context, Frozen, JsonRoute, Run

from .tables import RangeCheckup

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
        theirs = col(RangeCheckup.run_id).in_([run.id for run in runs])
        notes = {note.run_id: note.summary for note in session.exec(select(RangeCheckup).where(theirs))}
    return [
        CheckupRow(run=run.id, symbol=run.params["symbol"], state=run.state, note=notes.get(run.id)) for run in runs
    ]
