"""The first step of an episode: what is due is resolved, its questions are chosen, and its harvest starts."""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlmodel import Session

from chordesk.agents.board.voices import voices_of
from chordesk.models.database.persistence import transact
from chordesk.models.states import RunKind, StepKind
from chordesk.models.tables.board import EpisodeQuestion
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.work import Done, Ending
from chordesk.tasks.workflows.episode.asking import left_out, questions_for, relative_rows, symbols_for
from chordesk.tasks.workflows.episode.booking import resolve
from chordesk.tasks.workflows.episode.harvesting import harvest_steps
from chordesk.tasks.workflows.episode.payloads import EpisodePlan, PlannedVoice
from chordesk.tools.questions.choosing import Chosen, unused_tools
from chordesk.tools.registry import ToolContext
from chordesk.tools.scoring.records.plans import voice_plans

NO_QUESTION = "there was no question to forecast"
NO_BUY = "no verdict is BUY: there was no round"
PATIENCE_SECONDS = 60.0


def brief(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Resolve what is due, choose the questions and start the harvest; without a question the episode ends here."""
    context = desk.tool_context(step.run_id)
    resolved = resolve(desk, context)
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        symbols = symbols_for(session, run, context)
    rows = relative_rows(run, context, symbols)
    ask = partial(questions_for, run=run, context=context, symbols=symbols, rows=rows)
    chosen = transact(desk.store, ask, PATIENCE_SECONDS)
    found: dict[str, Any] = {**resolved, "symbols": symbols.symbols, "symbols_from": symbols.source}
    silent = left_out(run, context, symbols, chosen)
    if not chosen:
        why = NO_QUESTION if run.kind == RunKind.EPISODE else NO_BUY
        return Done({**found, "questions": 0, "notes": [*silent, why]})
    with desk.store.read() as session:
        plan = plan_of(session, run, context)
    what = "symbols" if symbols.symbols else "questions"
    notes = [f"{what}: {symbols.source}", *silent] if run.kind == RunKind.EPISODE else []
    notes += [f"left out for their record: {', '.join(plan.extinct)}"] if plan.extinct else []
    asked = [_row(run.id, number, one) for number, one in enumerate(chosen, start=1)]
    board = NewStep(StepKind.BOARD, str(step.parent_id), payload=plan.payload(), waits=True)
    result = {**found, "questions": len(asked), "notes": notes}
    return Done(result, (asked,), [board, *harvest_steps(board.id)])


def plan_of(session: Session, run: Run, context: ToolContext) -> EpisodePlan:
    """Return the plan of a run's rounds: voices by their records, and tools that the last episode did not use."""
    settings, now = context.settings, context.clock.now()
    rounds = int(run.params["rounds"]) if run.kind == RunKind.EPISODE else settings.rounds
    voices = [voice.key for voice in voices_of(settings)]
    plans = voice_plans(session, settings, run.account, voices, rounds=rounds, until=now)
    return EpisodePlan(
        rounds,
        {voice: PlannedVoice(one.rounds, one.depth, one.tier, one.share) for voice, one in plans.items()},
        tuple(voice for voice in voices if voice not in plans),
        tuple(unused_tools(session, context.market, now, run.account)),
    )


def _row(run_id: str, number: int, one: Chosen) -> EpisodeQuestion:
    return EpisodeQuestion(
        run_id=run_id,
        question_id=one.question.id,
        label=f"Q{number}",
        baseline=one.question.baseline,
        baseline_source=one.question.baseline_source,
        chosen=one.reason,
    )
