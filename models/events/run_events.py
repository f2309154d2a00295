"""Events of runs. They are appended in the transaction that changes the run's row."""

from __future__ import annotations

from typing import Any

from chordesk.models.events.envelope import Envelope, EventType, event
from chordesk.models.tables.runs import Run

_NOTES, _LONGEST = 5, 500


def started(run: Run) -> Envelope:
    facts = {"account": run.account, "market": run.market, "market_now": run.market_now.isoformat()}
    return event(EventType.RUN_STARTED, run.id, kind=run.kind, model=run.model, parent=run.parent_run_id, **facts)


def stopping(run: Run) -> Envelope:
    return event(EventType.RUN_STOPPING, run.id, kind=run.kind)


def completed(run: Run) -> Envelope:
    """Return the event of a run that has ended, in any state."""
    notes = [note[:_LONGEST] for note in run.notes[-_NOTES:]]
    facts: dict[str, Any] = {"kind": run.kind, "state": run.state, "account": run.account, "notes": notes}
    return event(EventType.RUN_COMPLETED, run.id, **facts)
