"""(i) tokens of identical screens one after the other: what a run costs must not depend on the runs before it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from sqlmodel import Session, col, func, select

from chordesk.agents.roles import mode_of
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run, Turn
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.workflows.screen import open_screen
from tests.stack import Processes, processes, wait_for

RUN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ScreenTokens:
    """Tokens of one screen with its research and decision; modes: those of screeners, validators and the trader."""

    total: int
    turns: int
    modes: dict[str, int]


def repeated(times: int, candidates: int, **environ: str) -> list[ScreenTokens]:
    """Run the same screen so many times on one desk and return the tokens of each."""
    with processes(forked=False, **environ) as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        return [_screen(desk, candidates) for _ in range(times)]


def _screen(desk: Processes, candidates: int) -> ScreenTokens:
    store = desk_of(desk.app).store
    run = open_screen(desk.app, "sp500", max_candidates=candidates)
    assert run is not None

    def ended() -> bool:
        with store.read() as session:
            return session.get_one(Run, run.id).state in RUN_FINAL

    wait_for(ended, "the screen ends", RUN_SECONDS)
    with store.read() as session:
        assert session.get_one(Run, run.id).state == "done", session.get_one(Run, run.id).notes
        return _tokens(session, run.id)


def _tokens(session: Session, run_id: str) -> ScreenTokens:
    rows = session.exec(
        select(Turn.role, func.count(), func.sum(Turn.total_tokens))
        .where(Turn.run_id == run_id)
        .group_by(col(Turn.role))
    ).all()
    modes: dict[str, int] = defaultdict(int)
    for role, _, tokens in rows:
        modes[mode_of(role)] += tokens or 0
    return ScreenTokens(sum(modes.values()), sum(count for _, count, _ in rows), dict(modes))
