"""Whether this process can do a step: the run's market, its models and its features. A step that it cannot do is given
back as if it had not been claimed, and waits for a worker that can: nothing fails for a setting alone."""

from __future__ import annotations

from chordesk.models.errors import DeskError
from chordesk.models.states import StepKind
from chordesk.models.tables.runs import Run
from chordesk.models.text import SHORT_ID
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.policy import A_WORKER
from chordesk.tasks.engine.steps import ReadyStep


def lack(desk: Desk, step: ReadyStep) -> str | None:
    """Return for which worker a step waits that this process cannot do; None when it can."""
    spec = kinds.find_step(step.kind)
    if spec is None or step.kind == StepKind.FINISH:
        return None  # the end of a run needs neither
    found = _market_lack(desk, step.run_id) or (_models_lack(desk, step.run_id) if spec.turn else None)
    if found is None and spec.lacks is not None:
        found = spec.lacks(desk, step)
    return f"{A_WORKER}{found}" if found is not None else None


def _market_lack(desk: Desk, run_id: str) -> str | None:
    try:
        desk.market_of(run_id)
    except DeskError as error:
        with desk.store.read() as session:
            return f"the market {session.get_one(Run, run_id).market}: {error.args[0]}"
    return None


def _models_lack(desk: Desk, run_id: str) -> str | None:
    try:
        desk.serving(run_id)
    except DeskError as error:
        return f"{error.args[0]}; start one or `desk runs adopt {run_id[:SHORT_ID]} --model ...`"
    return None
