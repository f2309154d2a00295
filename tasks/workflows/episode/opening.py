"""The beginning of an episode: on request, or on beat once on each day of the exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from celery import Celery
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from chordesk.models.board.forecasts import ROUNDS
from chordesk.models.errors import UsageError
from chordesk.models.states import RunKind, StepKind
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.workflows.runs import new_run, open_run
from chordesk.tasks.workflows.screen import session_slot
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.questions.choosing import askable
from chordesk.tools.questions.reading import find_question


def open_episode(
    app: Celery,
    symbols: Sequence[str] = (),
    questions: Sequence[str] = (),
    rounds: int | None = None,
    *,
    schedule: str | None = None,
    slot: str | None = None,
) -> Run | None:
    """Start an episode. None when this slot of the schedule has its run already.

    symbols: that its tools look at, and that the desk asks about; without any the first step chooses them. questions:
    ids, or the beginning of each, of open questions to ask; without any the first step chooses them. rounds: 2 if not
    given.

    Raises UsageError, NotFound.
    """
    desk = desk_of(app)
    most = max(ROUNDS)
    held = most if rounds is None else rounds
    if held not in ROUNDS:
        raise UsageError(f"{held} rounds", remedy=f"give 1 to {most}")
    found = resolve_universe(",".join(symbols), desk.market) if symbols else []
    with desk.store.read() as session:
        asked = [open_question(session, desk.market, part) for part in questions]
    params: dict[str, Any] = {"symbols": found, "questions": list(dict.fromkeys(asked)), "rounds": held}
    run = new_run(desk, RunKind.EPISODE, params, schedule=schedule, slot=slot)
    try:
        return open_run(app, run, lambda session, row, finish: [NewStep(StepKind.BRIEF, finish)])
    except IntegrityError:
        if schedule is None:
            raise
        return None


def open_scheduled(app: Celery, schedule: str) -> str | None:
    """Open the episode of today's slot and return its id; None when the exchange is closed today or the slot has its
    run already."""
    slot = session_slot()
    run = open_episode(app, schedule=schedule, slot=slot) if slot is not None else None
    return run.id if run else None


def open_question(session: Session, market: MarketData, part: str) -> str:
    """Return the id of the question with this id, or with the only id that begins so. Raises UsageError, NotFound, also
    for one that cannot be forecast now."""
    found = find_question(session, part)
    now = market.clock.now()
    if found.id not in {one.id for one in askable(session, market, now)}:
        why = f"it is {found.state}, closes on {found.closes_at:%Y-%m-%d} and its baseline is {found.baseline}"
        raise UsageError(
            f"question {found.id} cannot be forecast on {now:%Y-%m-%d} on the {market.name} market: {why}",
            remedy="`desk questions list` shows the open ones",
        )
    return found.id
