"""The tally of an episode: citations are judged, rounds aggregated, the content written, and what a resolved question
books for an account."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import structlog
from sqlmodel import Session, col, select

from chordesk.agents.board.citations import JudgedCitation, judge
from chordesk.agents.board.content import EpisodeTally, VoiceStanding, content, markdown
from chordesk.agents.board.karma import aggregate, conduct, convergence, herding, skill
from chordesk.agents.board.voices import VOICES, voice_of
from chordesk.models import event_log
from chordesk.models.errors import NotConfigured
from chordesk.models.events import Envelope, EventType, event
from chordesk.models.groups import by_key
from chordesk.models.questions import ROUNDS, VoicePosition
from chordesk.models.states import StepKind
from chordesk.models.tables.board import (
    Episode,
    EpisodeQuestion,
    Forecast,
    KarmaEntry,
    Question,
    Signal,
    SignalCitation,
)
from chordesk.models.tables.columns import dialect_insert, new_id, utcnow
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Run, Step, exchange_of_run
from chordesk.tasks.board.board_view import round_of
from chordesk.tasks.board.episode.rounds import (
    FACTIONS,
    EpisodePlan,
    correlation_of,
    karma_of,
    number_of,
    positions,
    read_board,
)
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tools.board.event_positions import settle_event_positions, stake_run
from chordesk.tools.board.venue_questions import VenueResolver
from chordesk.tools.board.venues.markets import EventVenue
from chordesk.tools.board.venues.named_venues import build_venues
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.questions.resolving import OnResolved, is_under_way, resolve_due
from chordesk.tools.questions.stored_questions import known_at
from chordesk.tools.registry import ToolContext
from chordesk.tools.scoring.track_records import aggregates, voice_forecasts, voice_records
from chordesk.tools.scoring.voice_scores import BLIND, INFORMED, crowd

log = structlog.get_logger(__name__)


def book_skill(session: Session, question: Question, account: str) -> None:
    """Book for each voice of an account what its forecasts of a resolved question earned, once a question: the mean
    over its runs of the last forecast's skill. While a board of the account with the question is under way nothing is
    booked: that is for a later pass, which finds it."""
    if question.outcome is None or is_under_way(session, question.id, account):
        return
    by_voice: dict[str, dict[str, Forecast]] = defaultdict(dict)
    mine = (Forecast.question_id == question.id, Forecast.account == account)
    order = (col(Forecast.market_at), col(Forecast.round), col(Forecast.id))
    for row in session.exec(select(Forecast).where(*mine).order_by(*order)).all():
        by_voice[row.voice][row.run_id] = row
    book(session, [_entry(question, question.outcome, list(by_voice[voice].values())) for voice in sorted(by_voice)])


def _entry(question: Question, outcome: float, lasts: Sequence[Forecast]) -> KarmaEntry:
    last = lasts[-1]
    note = f"forecast {last.probability:.3f}, baseline {last.baseline:.3f}, outcome {outcome:g}"
    return KarmaEntry(
        account=last.account,
        run_id=last.run_id,
        voice=last.voice,
        question_id=question.id,
        amount=fmean(skill(one, outcome) for one in lasts),
        note=f"{note}; of {len(lasts)} runs" if len(lasts) > 1 else note,
        market_at=known_at(question),
    )


ON_RESOLVED: tuple[OnResolved, ...] = (book_skill, settle_event_positions)


def resolve(desk: Desk, context: ToolContext) -> dict[str, Any]:
    """Resolve and book what is due; return how many ended and how many wait."""
    found = resolve_due(
        desk.store, context.market, context.account, on_resolved=ON_RESOLVED,
        resolvers=[VenueResolver(venues_of(context))], delisted_pays=context.settings.delisted_pays,
    )  # fmt: skip
    return {"resolved": len(found.resolved), "waiting": len(found.waiting)}


def venues_of(context: ToolContext) -> dict[str, EventVenue]:
    """None in a replay, and without the extra."""
    if context.clock.day is not None:
        return {}
    try:
        return build_venues(context.settings)
    except NotConfigured as error:
        log.warning("venues.away", error=str(error))
        return {}


def stake(desk: Desk, context: ToolContext, run_id: str, beliefs: Mapping[str, float]) -> list[str]:
    """Open play-money positions on a run's questions of event markets, and return a note for each that was not.
    beliefs: probability of YES by the question's id. Each is opened once a run, however often this is called."""
    venues = venues_of(context)
    if not venues or not beliefs:
        return []
    with desk.store.read() as session:
        arbitrage = arbitrage_sides(session, run_id)
    found = stake_run(desk.store, context.settings, run_id, beliefs, venues, arbitrage)
    return [f"no play money on question {one.question_id}: {one.reason}" for one in found if one.reason]


def book(session: Session, entries: Sequence[KarmaEntry]) -> None:
    """Write entries; where the account's voice has one of the question already, it stays: nothing is booked twice."""
    if entries:
        rows = [row.model_dump() for row in entries]
        new = dialect_insert(session, KarmaEntry)
        session.connection().execute(
            new.on_conflict_do_nothing(index_elements=["account", "voice", "question_id"]), rows
        )


def arbitrage_sides(session: Session, run_id: str) -> dict[str, str]:
    """Return by question the side that an arbitrage on the run's board buys."""
    asked = select(EpisodeQuestion.label, Question).join(Question).where(EpisodeQuestion.run_id == run_id)
    questions = dict(session.exec(asked).all())
    found = {}
    for signal in session.exec(select(Signal).where(Signal.run_id == run_id, Signal.direction == "arb")):
        for question in (questions[label] for label in signal.subjects if label in questions):
            side = "firstSide" if question.source == signal.data["first"] else "secondSide"
            found[question.id] = str(signal.data[side]).lower()
    return found


NO_POSITION = "no voice has a position"


def tally(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    now = desk.market_of(step.run_id).clock.now()
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        plan = EpisodePlan.model_validate(step.payload)
        found = tally_of(session, run, plan, now)
    judged = by_key(((cited.voice, cited.round, cited.question), cited) for cited in found.judged)
    citations = [
        row
        for one in found.positions
        for row in _citation_rows(run.id, one, judged[one.voice, one.round, one.forecast.question])
    ]
    counting = sum(one.counts for one in found.judged)
    notes = [] if found.positions else [NO_POSITION]
    ids = {label: one.id for label, one in found.board.questions_by_label.items()}
    beliefs = {ids[one.question]: one.probability for one in found.aggregates}
    notes += stake(desk, desk.tool_context(run.id), run.id, beliefs)
    result = {"forecasts": len(found.positions), "citations": len(citations), "counting": counting, "notes": notes}
    return Done(result, (citations,), also=partial(_write, run=run, found=found, now=now))


def tally_of(session: Session, run: Run, plan: EpisodePlan, now: dt.datetime) -> EpisodeTally:
    board, held = read_board(session, run, exchange_day(now, exchange_of_run(run))), positions(session, run.id)
    judged = [one for position in held for one in judge(position, board)]
    steps = session.exec(select(Step).where(Step.run_id == run.id, Step.kind == StepKind.VOICE)).all()
    answered = {voice_of(row.role) for row in steps if row.result.get("status") == "completed"}
    notes = [
        note
        for voice in VOICES.values()
        for note in conduct(voice.key, voice.tool, held, judged, board, answered=voice.key in answered)
    ]
    past = voice_forecasts(session, run.account, now)
    rounds = sorted({one.round for one in held})
    both = crowd(aggregates(session, run.account, now))
    better = both.better_round if both else BLIND
    used = better if better in rounds else max(rounds, default=None)
    taking_part = [*plan.voices, *(one.voice for one in held if one.voice not in plan.voices)]
    correlation = correlation_of(past)
    shares = {voice: one.share for voice, one in plan.voices.items()}
    records = {one.voice: one for one in voice_records(past, dict.fromkeys(taking_part))}
    return EpisodeTally(
        board=board,
        standings=tuple(
            VoiceStanding(one.voice, FACTIONS.get(one.voice, ""), alpha=one.alpha) for one in records.values()
        ),
        positions=tuple(held),
        judged=tuple(judged),
        conduct=tuple(notes),
        rounds={number: aggregate(held, board, number, shares, FACTIONS, correlation) for number in rounds},
        used_round=used,
        convergence=tuple(convergence(held)),
        herding=herding(held, both.gain if both else None) if INFORMED in rounds else None,
        notes=_notes(steps),
    )


def _notes(steps: Sequence[Step]) -> dict[str, list[str]]:
    """Return by voice a line for each round without an answer, and for each part of an answer that was left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in sorted(steps, key=lambda row: row.subject):
        voice, number = voice_of(row.role), round_of(row.subject)
        status = str(row.result.get("status") or row.state)
        if status != "completed":
            why = row.result.get("reason") or row.error
            found[voice].append(f"no position in round {number}: {status}" + (f", {why}" if why else ""))
        elif not row.result.get("forecasts"):
            found[voice].append(f"no position in round {number}: it forecast no question of the board")
        found[voice] += [f"round {number}, {line}" for line in row.result.get("left_out", ())]
    return dict(found)


def _citation_rows(run_id: str, position: VoicePosition, judged: Sequence[JudgedCitation]) -> list[SignalCitation]:
    return [
        SignalCitation(
            id=new_id(),
            run_id=run_id,
            forecast_id=position.forecast_id,
            signal_id=one.signal.id if one.signal is not None else None,
            ordinal=one.ordinal,
            label=one.cited.signal,
            stance=one.cited.stance,
            claim=one.cited.claim,
            counts=one.counts,
            reason=one.reason,
            copied=one.copied,
        )
        for one in judged
    ]


def _write(session: Session, run: Run, found: EpisodeTally, now: dt.datetime) -> None:
    """Write the episode; the account's row is held, so that two episodes never get one number."""
    session.get(Account, run.account, with_for_update=True)
    number = number_of(session, run)
    standings = tuple(_standing(session, run, one, now) for one in found.standings)
    whole = replace(found, board=replace(found.board, number=number), standings=standings)
    summary = content(whole)
    row = Episode(
        run_id=run.id,
        account=run.account,
        number=number,
        rounds=max((one.round for one in found.positions), default=0),
        used_round=found.used_round,
        content=markdown(summary),
        summary=summary,
        created_at=utcnow(),
    )
    event_log.append(session, [_written(row)])
    session.add(row)
    for asked in session.exec(select(EpisodeQuestion).where(EpisodeQuestion.run_id == run.id)):
        asked.blind, asked.informed = (_chance(found, number, asked.label) for number in ROUNDS)


def _chance(found: EpisodeTally, number: int, label: str) -> float | None:
    return next((one.probability for one in found.rounds.get(number, ()) if one.question == label), None)


def _standing(session: Session, run: Run, one: VoiceStanding, now: dt.datetime) -> VoiceStanding:
    return replace(one, skill=karma_of(session, run.account, one.voice, now) or 0.0)


WRITTEN = EventType("artifact.written")  # as the description of the feature has it


def _written(row: Episode) -> Envelope:
    data = row.content.encode()
    return event(
        WRITTEN,
        row.run_id,
        row.created_at,
        id=row.run_id,
        kind="text/markdown",
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        run=row.run_id,
        number=row.number,
    )
