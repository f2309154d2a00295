"""What models were shown of a run under a mask, read for what the mask hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlmodel import Session, select

from chordesk.agents.measure.mask.leak_audit import Audit, audit
from chordesk.agents.measure.mask.runtime import MaskWrap
from chordesk.models.errors import UsageError
from chordesk.models.states import RunKind
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import MaskedTurn
from chordesk.tasks.engine.budgets import runs_of_backtest

if TYPE_CHECKING:
    from chordesk.tasks.bootstrap import Desk


def audits(session: Session, desk: Desk, run: Run) -> Audit:
    """Return the audit of a run, or of all sessions of a backtest. Raises UsageError where no model was asked under a
    mask: nothing was kept to read."""
    runs = [run.id]
    if run.kind == RunKind.BACKTEST:
        runs += session.exec(runs_of_backtest(run.account)).all()
    masks, found = MaskWrap(desk), []
    for run_id in dict.fromkeys(runs):
        rows = session.exec(select(MaskedTurn).where(MaskedTurn.run_id == run_id)).all()
        if rows and (mask := masks.disguise(run_id)) is not None:
            found.append(audit(mask, run_id, rows))
    if not found:
        raise UsageError(f"no model was asked under a mask in run {run.id}", remedy="set DESK_MASK before it starts")
    return Audit(
        run_id=run.id, kinds=found[0].kinds, conversations=sum(one.conversations for one in found),
        texts=sum(one.texts for one in found), characters=sum(one.characters for one in found),
        leaks=[leak for one in found for leak in one.leaks],
    )  # fmt: skip
