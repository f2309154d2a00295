"""The screen: shards of the universe times lenses as a group, and their merge into candidates."""

from __future__ import annotations

from collections import Counter

from celery import Task, shared_task
from sqlmodel import Session, select

from agents.screeners import Hit, RankedCandidate, accept, rank, screener_subject, shards
from models.columns import new_id
from models.order_tables import Account, Position
from models.research import Instrument, ReportStatus, ScreenCandidate, ScreenConfidence, ScreenOutput
from models.states import StepKind, StepState
from models.tables import Candidate, CandidateHit, Run, ScreenHit, Step
from tasks.bootstrap import Desk
from tasks.calendar import session_slot
from tasks.graph import Claimed, NewStep
from tasks.leases import Held
from tasks.memory import lens_memory
from tasks.portfolio.schedule import SCREENED
from tasks.research import candidate_steps, everyone, unscreened
from tasks.runs import open_screen
from tasks.turns import last_turn, retry_of, run_role, status_of, value_of
from tasks.work import Done, Ending, work


@shared_task(bind=True, name="desk.screen")  # type: ignore[untyped-decorator]
def screen(self: Task, step_id: str | None = None, schedule: str | None = None) -> str | None:
    """Split the universe and fan out; from beat, open the run of this slot first."""
    if step_id is not None:
        return work(self.app, step_id, split)
    slot = session_slot()
    run = open_screen(self.app, schedule=schedule, slot=slot) if slot is not None else None
    return run.id if run else None


@shared_task(bind=True, name="desk.screen_shard")  # type: ignore[untyped-decorator]
def screen_shard(self: Task, step_id: str) -> str:
    """One lens over one shard."""
    return work(self.app, step_id, look)


@shared_task(bind=True, name="desk.merge")  # type: ignore[untyped-decorator]
def merge(self: Task, step_id: str) -> str:
    """Hits to candidates, and the quick report of each."""
    return work(self.app, step_id, gather)


def split(desk: Desk, step: Claimed, held: Held) -> Ending:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        params, capital = run.params, session.get_one(Account, run.account).cash
    join = NewStep(StepKind.MERGE, str(step.parent_id), waits=True)
    slices = shards(params["symbols"], desk.settings.shard_size)
    children = [
        NewStep(
            StepKind.SCREEN_SHARD,
            join.id,
            subject=f"{lens}:{number}",
            role=f"screener_{lens}",
            payload={"lens": lens, "shard": number, "symbols": list(symbols), "capital": capital},
        )
        for lens in params["lenses"]
        for number, symbols in enumerate(slices)
    ]
    return Done(result={"symbols": len(params["symbols"]), "shards": len(children)}, children=[join, *children])


def look(desk: Desk, step: Claimed, held: Held) -> Ending:
    asked = step.payload
    lens, symbols = asked["lens"], asked["symbols"]
    brief = screener_subject(lens, asked["shard"], symbols, desk.settings, asked["capital"])
    with desk.store.read() as session:
        memory = lens_memory(session, desk.tool_context(step.run_id), lens, symbols)
    run = run_role(desk, step, held, step.role, f"shard-{asked['shard']}", brief, memory=memory)
    again = retry_of(desk, step, run)
    if again is not None:
        return again
    status, reason = status_of(run)
    turn = last_turn(run)
    hits: list[ScreenHit] = []
    notes: tuple[str, ...] = ()
    if status is ReportStatus.COMPLETED and turn is not None:
        output = ScreenOutput.model_validate(value_of(run))
        kept = accept(output, lens, symbols, options_allowed=desk.settings.options_allowed)
        hits, notes = [_hit(step, turn.id, lens, item) for item in kept.candidates], kept.notes
    result = {"status": status, "reason": reason, "hits": len(hits), "notes": list(notes)}
    failed = status is ReportStatus.FAILED
    state = StepState.FAILED if failed else StepState.DONE
    return Done(result, (run.turns, run.calls, hits), state=state, error=reason if failed else None)


def _hit(step: Claimed, turn_id: str, lens: str, item: ScreenCandidate) -> ScreenHit:
    return ScreenHit(
        run_id=step.run_id,
        step_id=step.id,
        turn_id=turn_id,
        lens=lens,
        symbol=item.symbol,
        instrument=item.instrument,
        confidence=item.confidence,
        thesis=item.thesis,
    )


def gather(desk: Desk, step: Claimed, held: Held) -> Ending:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        hits = session.exec(select(ScreenHit).where(ScreenHit.run_id == run.id)).all()
        positions = session.exec(select(Position).where(Position.account == run.account)).all()
        capital = session.get_one(Account, run.account).cash
        notes = lens_notes(session, run.id)
    chosen = rank(map(_ranked_hit, hits), run.params["max_candidates"])
    candidates = [_candidate(run.id, item) for item in chosen]
    taken = {candidate.symbol for candidate in candidates}
    # What the account holds is looked at again in every screen, whether a lens named it or not.
    held_too = [position.symbol for position in positions if position.symbol not in taken]
    candidates += unscreened(run.id, held_too, "position", first=len(taken) + 1)
    ids = {candidate.symbol: candidate.id for candidate in candidates}
    links = [CandidateHit(candidate_id=ids[item.symbol], hit_id=hit.id) for item in chosen for hit in item.hits]
    theses = {item.symbol: [_thesis(hit) for hit in item.hits] for item in chosen}
    result = {"hits": len(hits), "candidates": len(candidates), "notes": notes}
    if not candidates:
        return Done(result)
    decide = NewStep(StepKind.DECIDE, str(step.parent_id), waits=True)
    asked = everyone(SCREENED)
    steps = candidate_steps(candidates, lambda symbol: asked, capital, decide.id, theses)
    return Done(result, (candidates, links), [decide, *steps])


def _ranked_hit(row: ScreenHit) -> Hit:
    instrument, confidence = Instrument(row.instrument), ScreenConfidence(row.confidence)
    return Hit(row.id, row.lens, row.symbol, instrument, confidence, row.thesis)


def _thesis(hit: Hit) -> dict[str, str]:
    return {"lens": hit.lens, "confidence": hit.confidence, "thesis": hit.thesis}


def _candidate(run_id: str, item: RankedCandidate) -> Candidate:
    return Candidate(
        id=new_id(),
        run_id=run_id,
        symbol=item.symbol,
        instrument=item.instrument,
        confidence=item.confidence,
        origin="screen",
        rank=item.rank,
        score=item.score,
    )


def lens_notes(session: Session, run_id: str) -> list[str]:
    """One line for each lens and reason that kept shards from answering; a failing lens never fails the screen."""
    rows = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.SCREEN_SHARD)).all()
    reasons: Counter[tuple[str, str]] = Counter()
    shards_of: Counter[str] = Counter()
    for row in rows:
        lens = str(row.payload["lens"])
        shards_of[lens] += 1
        status = row.result.get("status", "failed")
        if status != ReportStatus.COMPLETED:
            reasons[lens, f"{status}: {row.result.get('reason') or row.error}"] += 1
    return [
        f"lens {lens}: {why} ({count} of {shards_of[lens]} shards)" for (lens, why), count in sorted(reasons.items())
    ]
