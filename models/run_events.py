"""What happens to runs, as events. Who changes the row appends them in the same transaction."""

from __future__ import annotations

from models.events import Envelope, EventType, event
from models.tables import Run

_NOTES, _LONGEST = 5, 500


def started(run: Run) -> Envelope:
    facts = {"account": run.account, "market": run.market, "market_now": run.market_now.isoformat()}
    return event(EventType.RUN_STARTED, run.id, kind=run.kind, spoken_by=run.model, parent=run.parent_run_id, **facts)


def stopping(run: Run) -> Envelope:
    return event(EventType.RUN_STOPPING, run.id, kind=run.kind)


def completed(run: Run) -> Envelope:
    """Of a run that has ended, however it did."""
    notes = [note[:_LONGEST] for note in run.notes[-_NOTES:]]
    return event(EventType.RUN_COMPLETED, run.id, kind=run.kind, state=run.state, notes=notes)
