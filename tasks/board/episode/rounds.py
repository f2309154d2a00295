"""The rounds of an episode: one voice's turn over the board, the joins between rounds, and the stop of one voice."""

from __future__ import annotations

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlalchemy import and_
from sqlmodel import Session, col, func, select

from chordesk.agents.board.board_text import Board, PastRecord, board_text, voice_memory
from chordesk.agents.board.voices import VOICES, AcceptedOutput, accept, owner_of, voice_of
from chordesk.agents.role_models import tier_of
from chordesk.agents.subjects import CitedFinding, SymbolForecast, VoiceSubject, voice_subject
from chordesk.models.answers import Frozen, Interrupted, ReportStatus
from chordesk.models.board.forecasts import Harvest, VoiceOutput
from chordesk.models.database.store import Store, transact
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.questions import SignalState, VoiceForecast, VoicePosition
from chordesk.models.settings import Settings
from chordesk.models.states import STEP_FINAL, StepKind
from chordesk.models.tables.board import (
    Episode,
    EpisodeQuestion,
    Forecast,
    KarmaEntry,
    Question,
    Signal,
    SignalCitation,
    SignalFinding,
)
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run, Step, Turn
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.tasks.board.board_view import ROUND_PREFIX, board_questions, board_signals, label_order, round_of
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import policy
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending, RetryLater, TryAgain, attempts_of
from chordesk.tools.board.harvest_context import harvest_context
from chordesk.tools.board.harvesters import HARVESTERS, Tombstone, run_harvester
from chordesk.tools.market.clock import clock_day
from chordesk.tools.scoring.statistics import ScoredForecast, alpha, brier, mean_of
from chordesk.tools.scoring.track_records import Precision, VoicePlan, voice_forecasts
from chordesk.tools.scoring.voice_scores import BLIND, error_correlation, last_positions

FACTIONS = {voice.key: voice.faction for voice in VOICES.values()}
OWN_RECORDS = "the desk"  # source of what code states about a tool


def harvest_steps(parent: str, learned: Mapping[str, Precision]) -> list[NewStep]:
    """Return a step for each tool, with its precision: the record of all is read once."""
    return [
        NewStep(StepKind.HARVEST, parent, tool, payload=learned.get(tool, Precision())._asdict()) for tool in HARVESTERS
    ]


def harvest(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run one tool and post its findings. A failure that may pass is tried again; the last one leaves a tombstone."""
    tool, harvester = step.subject, HARVESTERS.get(step.subject)
    context = desk.tool_context(step.run_id)
    now = context.clock.now()
    if harvester is None:
        rows = [tombstone(step.run_id, step.id, tool, f"this version has no tool {tool}", now)]
        return Done({"state": SignalState.OFFLINE, "signals": 0}, (rows,))
    with desk.store.read() as session:
        questions = board_questions(session, step.run_id)
    found = run_harvester(harvester, harvest_context(context, questions, FACTIONS))
    if isinstance(found, Tombstone):
        return _failed(desk, step, found, now)
    rows = signals_of(step, found, Precision(**step.payload), now)
    return Done({"state": rows[0].state, "signals": len(found.findings)}, (rows,))


def _failed(desk: Desk, step: ClaimedStep, found: Tombstone, now: dt.datetime) -> Ending:
    """Return another attempt for a failure that may pass while there are some left, else the tombstone."""
    wait = policy.next_attempt("market_unavailable", *attempts_of(step)) if found.retryable else None
    if wait is not None:
        return RetryLater(wait.seconds, policy.reason("market_unavailable", found.reason), counts=wait.counts)
    rows = [tombstone(step.run_id, step.id, step.subject, found.reason, now)]
    return Done({"state": SignalState.OFFLINE, "signals": 0, "reason": found.reason}, (rows,))


def signals_of(step: ClaimedStep, found: Harvest, learned: Precision, now: dt.datetime) -> list[Signal]:
    """Return the rows of a harvest, best first; a dormant tool has one with the reason."""
    if not found.findings:
        reason = found.dormant or "it found nothing"
        return [_stating(step.run_id, step.id, step.subject, SignalState.DORMANT, reason, now)]
    return [_signal_row(step, place, one, learned) for place, one in enumerate(found.findings, start=1)]


def tombstone(run_id: str, step_id: str, tool: str, reason: str, now: dt.datetime) -> Signal:
    return _stating(run_id, step_id, tool, SignalState.OFFLINE, f"{tool} failed: {reason}", now)


def lost_with_its_worker(step: Step, now: dt.datetime) -> Signal:
    return tombstone(step.run_id, step.id, step.subject, step.error or "its step left nothing", now)


def _signal_row(step: ClaimedStep, place: int, one: SignalFinding, learned: Precision) -> Signal:
    return Signal(
        id=new_id(),
        run_id=step.run_id,
        step_id=step.id,
        label=f"{step.subject}-{place}",
        tool=step.subject,
        owner=owner_of(step.subject),
        state=SignalState.LIVE,
        **{
            **one.model_dump(),
            "subjects": list(one.subjects),
            "precision": learned.factor,
            "resolved": learned.resolved,
        },
    )


def _stating(run_id: str, step_id: str, tool: str, state: SignalState, headline: str, now: dt.datetime) -> Signal:
    return Signal(
        id=new_id(),
        run_id=run_id,
        step_id=step_id,
        label=f"{tool}-1",
        tool=tool,
        owner=owner_of(tool),
        state=state,
        headline=headline,
        direction="neutral",
        source=OWN_RECORDS,
        as_of=now,
    )


class EpisodePlan(Frozen):
    """The plan of an episode, as steps carry it in their payload."""

    rounds: int  # held at most
    voices: dict[str, VoicePlan]  # that take part
    extinct: tuple[str, ...] = ()  # voices left out for their record
    unused: tuple[str, ...] = ()  # tools of the last episode without a citation

    def in_round(self, number: int) -> list[str]:
        return [voice for voice, plan in self.voices.items() if plan.rounds >= number]

    def of_voice(self, voice: str) -> dict[str, Any]:
        plan = self.voices[voice]
        return {"unused": list(self.unused), "depth": plan.depth, "tier": plan.tier}


def read_board(session: Session, run: Run, day: dt.date) -> Board:
    """Return the board of a run; it is empty for a run without one. day: of its market. Before the tally its number is
    what the next episode of the account gets."""
    return Board(board_questions(session, run.id), board_signals(session, run.id), number_of(session, run), day, run.id)


@dataclass(frozen=True, slots=True)
class RoundView:
    """What all voices of a round are shown: the board, its text, and the positions of earlier rounds."""

    board: Board
    text: str
    positions: tuple[VoicePosition, ...]


def round_view(session: Session, run: Run, number: int, day: dt.date) -> RoundView:
    """Return the view of a round, by number; that of round 1 is blind. day: of the run's market."""
    board = read_board(session, run, day)
    earlier = tuple(one for one in positions(session, run.id) if one.round < number) if number > BLIND else ()
    return RoundView(board, board_text(board), earlier)


def number_of(session: Session, run: Run) -> int:
    episode = session.get(Episode, run.id)
    if episode is not None:
        return episode.number
    return (session.exec(select(func.max(Episode.number)).where(Episode.account == run.account)).one() or 0) + 1


def positions(session: Session, run_id: str) -> tuple[VoicePosition, ...]:
    labels = select(EpisodeQuestion.question_id, EpisodeQuestion.label).where(EpisodeQuestion.run_id == run_id)
    label_of = dict(session.exec(labels).all())
    rows = session.exec(select(Forecast).where(Forecast.run_id == run_id)).all()
    ordered = sorted(rows, key=lambda row: (row.round, row.voice, label_order(label_of[row.question_id])))
    return tuple(_position(row, label_of[row.question_id]) for row in ordered)


def _position(row: Forecast, label: str) -> VoicePosition:
    forecast = VoiceForecast.model_validate(
        {
            "question": label,
            "probability": row.probability,
            "stake": row.stake,
            "because": row.because,
            "change": row.change,
            "citations": row.citations,
            "chain": row.chain,
        }
    )
    return VoicePosition(voice=row.voice, round=row.round, forecast=forecast, forecast_id=row.id, stated=row.stated)


_LAST = 40  # forecasts that are read for the last positions
_LEAST_TOGETHER = 20  # questions that all voices forecast, before their errors' correlation is used


def memory_of(session: Session, run: Run, voice: str, now: dt.datetime, unused: Sequence[str]) -> str | None:
    """None before the first position. now: market time. unused: tools of the last episode without a citation."""
    last = last_positions(voice_forecasts(session, run.account, now, voice))
    record = PastRecord(
        mean_of(last, lambda one: brier(one.probability, one.outcome)),
        mean_of(last, lambda one: alpha(one.probability, one.baseline, one.outcome)),
    )
    karma = karma_of(session, run.account, voice, now)
    return voice_memory(record, _past(session, run, voice, now), karma, now=now, unused=unused) or None


def karma_of(session: Session, account: str, voice: str, until: dt.datetime) -> float | None:
    mine = (KarmaEntry.account == account, KarmaEntry.voice == voice, col(KarmaEntry.market_at) <= until)
    return session.exec(select(func.sum(KarmaEntry.amount)).where(*mine)).one()


def _past(session: Session, run: Run, voice: str, now: dt.datetime) -> list[tuple[Forecast, Question]]:
    """A voice's last forecasts, each question of a run once: the last round's."""
    newest = (
        select(Forecast, Question)
        .join(Question, col(Question.id) == col(Forecast.question_id))
        .join(Run, col(Run.id) == col(Forecast.run_id))
        .where(
            col(Forecast.account) == run.account,
            col(Forecast.voice) == voice,
            col(Forecast.run_id) != run.id,
            col(Run.market) == run.market,
            col(Forecast.market_at) <= now,
        )
        # Of a run the first round comes first, and the last one stays.
        .order_by(col(Forecast.market_at).desc(), col(Forecast.round), col(Forecast.id))
        .limit(_LAST)
    )
    return list({(row.run_id, row.question_id): (row, question) for row, question in session.exec(newest)}.values())


def correlation_of(forecasts: Sequence[ScoredForecast]) -> float | None:
    errors: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in last_positions(forecasts):
        errors[one.run, one.question][one.source] = one.probability - one.outcome
    voices = sorted({one.source for one in forecasts})
    together = [found for found in errors.values() if found.keys() == set(voices)]
    if len(together) < _LEAST_TOGETHER:
        return None
    return error_correlation(np.array([[found[voice] for found in together] for voice in voices]))


MOST_SIGNALS = 5  # of one symbol, for the trader


def subject_of(view: RoundView, voice: str, number: int, record: str | None, settings: Settings) -> VoiceSubject:
    """The view of round 1 is blind, without any position. record: what the voice remembers."""
    board = view.board
    return voice_subject(voice, number, view.text, board.questions, board.signals, settings, view.positions, record)


def brief_of_trader(session: Session, run_id: str) -> dict[str, Any]:
    return {"board": found} if (found := trader_board(session, run_id)) else {}


def trader_board(session: Session, run_id: str) -> dict[str, SymbolForecast]:
    """Return what the voices of a run forecast of each symbol, for the trader; empty for a run without a tally."""
    episode = session.get(Episode, run_id)
    if episode is None:
        return {}
    subjects = {one.label: one.subjects for one in board_questions(session, run_id)}
    found: dict[str, SymbolForecast] = {}
    for one in episode.summary.get("questions", ()):
        if one["aggregate"] is None:
            continue
        made = _symbol_forecast(session, run_id, one)
        found |= dict.fromkeys(subjects.get(one["question"], ()), made)
    return found


def _symbol_forecast(session: Session, run_id: str, one: Mapping[str, Any]) -> SymbolForecast:
    aggregate = one["aggregate"]
    dissent = [{name: each[name] for name in ("voice", "probability", "because")} for each in aggregate["dissent"]]
    return {
        "question": one["text"],
        "probability": round(aggregate["probability"], 4),
        "baseline": one["baseline"],
        "round": aggregate["round"],
        "voices": aggregate["voices"],
        "dissent": dissent,  # type: ignore[typeddict-item]
        "signals": _cited(session, run_id, one["id"]),
    }


def _cited(session: Session, run_id: str, question_id: str) -> list[CitedFinding]:
    rows = session.exec(
        select(Signal, Forecast.voice)
        .join(SignalCitation, col(SignalCitation.signal_id) == col(Signal.id))
        .join(Forecast, col(Forecast.id) == col(SignalCitation.forecast_id))
        .where(SignalCitation.run_id == run_id, Forecast.question_id == question_id, SignalCitation.counts)
    ).all()
    voices: dict[str, set[str]] = defaultdict(set)
    signals = {signal.label: signal for signal, _ in rows}
    for signal, voice in rows:
        voices[signal.label].add(voice)
    ordered = sorted(signals, key=lambda label: (-len(voices[label]), label_order(label)))
    return [
        {
            "id": label,
            "headline": signals[label].headline,
            "direction": signals[label].direction,
            "voices": len(voices[label]),
        }
        for label in ordered[:MOST_SIGNALS]
    ]


STOPPED = "stopped"  # in the payload of a voice's step: the person who stopped it
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 5.0

Interrupt = Callable[[str, str], bool]


@dataclass(slots=True)
class VoiceStop:
    run_id: str
    voice: str
    # thread and turn of each of its turns that a worker ended
    interrupted: list[tuple[str, str]] = field(default_factory=list)
    over: bool = False  # whether its steps have ended
    seconds: float = 0.0


def stop_voice(store: Store, run_id: str, voice: str, by: str, interrupt: Interrupt, seconds: float) -> VoiceStop:
    """Stop a voice of a run and wait at most so many seconds for the end of its steps. interrupt: ends a turn by thread
    and turn, and returns whether a worker did. Raises UsageError for an unknown voice, NotFound when it has no
    step in the run."""
    if voice not in VOICES:
        raise UsageError(f"there is no voice {voice!r}", remedy=f"choose among {', '.join(VOICES)}")
    began = time.monotonic()
    found = VoiceStop(run_id, voice)
    if not transact(store, lambda session: _mark(session, run_id, voice, by), PATIENCE_SECONDS):
        raise NotFound(
            f"{voice} has no turn in run {run_id} that could be stopped", remedy="`desk board RUN` lists its voices"
        )
    while True:
        with store.read() as session:
            open_steps = _open(session, run_id, voice)
            turns = _running(session, [step.id for step in open_steps])
        found.over = not open_steps
        found.seconds = round(time.monotonic() - began, 3)
        if found.over or found.seconds >= seconds:
            return found
        found.interrupted += [turn for turn in turns if turn not in found.interrupted and interrupt(*turn)]
        time.sleep(POLL_SECONDS)


def _mark(session: Session, run_id: str, voice: str, by: str) -> int:
    steps = _open(session, run_id, voice)
    for step in steps:
        step.payload = {**step.payload, STOPPED: by}
        session.add(step)
    return len(steps)


def _open(session: Session, run_id: str, voice: str) -> list[Step]:
    mine = and_(col(Step.run_id) == run_id, col(Step.kind) == StepKind.VOICE, col(Step.role) == VOICES[voice].role)
    return list(session.exec(select(Step).where(mine, col(Step.state).not_in(STEP_FINAL))).all())


def _running(session: Session, step_ids: list[str]) -> list[tuple[str, str]]:
    rows = session.exec(
        select(RuntimeConversation.thread_id, RuntimeConversation.active_turn_id).where(
            col(RuntimeConversation.step_id).in_(step_ids),
            col(RuntimeConversation.active_turn_id).is_not(None),
            col(RuntimeConversation.closed_at).is_(None),
        )
    ).all()
    return [(thread, turn) for thread, turn in rows if turn is not None]


def run_voice(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run one voice's turn in one round, and store its forecasts. Whatever it answers, the round goes on."""
    if why := stopped_by(step.payload):
        return Done({"status": "interrupted", "reason": why, "forecasts": 0})
    clock, settings = desk.market_of(step.run_id).clock, desk.settings_of(step.run_id)
    now, today = clock.now(), clock_day(clock)
    voice, number = voice_of(step.role), round_of(step.subject)
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        record = memory_of(session, run, voice, now, step.payload["unused"])
        view = round_view(session, run, number, today)
    board, brief = view.board, subject_of(view, voice, number, record, settings)
    model = tier_of(settings, step.role, step.payload["tier"])
    asked_of = {"model": model, "depth": step.payload["depth"]}
    try:
        turned = held.turns.run(step.role, step.subject, brief, **asked_of)
    except TryAgain as again:
        if (why := _stopped_meanwhile(desk, step)) is None:
            raise
        return _interrupted(why, again.later.rows)
    if isinstance(turned.outcome, Interrupted) and (why := _stopped_meanwhile(desk, step)):
        return _interrupted(why, turned.rows)
    status, reason = turned.status, turned.reason
    answer = VoiceOutput.model_validate(turned.value) if status is ReportStatus.COMPLETED else None
    given = accept(answer, board) if answer is not None else AcceptedOutput(())
    turn = turned.last_turn
    rows = [_row(step, run, one, given, board, turn, now) for one in given.forecasts] if turn is not None else []
    result = {"status": status, "reason": reason, "forecasts": len(rows), "left_out": list(given.notes)}
    return Done(result, (*turned.rows, rows), error=reason if status is ReportStatus.FAILED else None)


def stopped_by(payload: Mapping[str, Any]) -> str | None:
    person = payload.get(STOPPED)
    return f"interrupted by {person}" if person else None


def _interrupted(why: str, rows: Sequence[Sequence[Any]]) -> Done:
    return Done({"status": "interrupted", "reason": why, "forecasts": 0}, rows)


def _stopped_meanwhile(desk: Desk, step: ClaimedStep) -> str | None:
    with desk.store.read() as session:
        return stopped_by(session.get_one(Step, step.id).payload)


def _row(
    step: ClaimedStep, run: Run, one: VoiceForecast, given: AcceptedOutput, board: Board, turn: Turn, now: dt.datetime
) -> Forecast:
    question = board.questions_by_label[one.question]
    assert question.baseline is not None, "a question without one is left out"
    return Forecast(
        id=new_id(),
        run_id=step.run_id,
        step_id=step.id,
        turn_id=turn.id,
        question_id=question.id,
        account=run.account,
        voice=voice_of(step.role),
        round=round_of(step.subject),
        probability=one.probability,
        stated=given.stated[one.question],
        stake=one.stake,
        because=one.because,
        change=one.change,
        chain=one.chain,
        citations=[cited.model_dump() for cited in one.citations],
        baseline=question.baseline,
        author=turn.model,
        market_at=now,
    )


NO_SIGNAL = "no tool has a live signal: there is nothing to cite, and no voice was asked"
NO_POSITION = "no voice has a position in round 1: there is no round 2"


def start_rounds(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Post a tombstone for each tool that was lost with its worker, and start round 1."""
    with desk.store.read() as session:
        signals = board_signals(session, step.run_id)
        steps = session.exec(select(Step).where(Step.parent_id == step.id, Step.kind == StepKind.HARVEST)).all()
    posted = {one.tool for one in signals}
    now = desk.market_of(step.run_id).clock.now()
    lost = [lost_with_its_worker(row, now) for row in steps if row.subject not in posted]
    states = [one.state for one in signals]
    counts = {state.value: states.count(state) for state in SignalState}
    counts[SignalState.OFFLINE.value] += len(lost)
    result: dict[str, Any] = {"signals": counts}
    if not counts[SignalState.LIVE.value]:
        return Done({**result, "notes": [NO_SIGNAL]}, (lost,), [_tally(step)])
    plan = EpisodePlan.model_validate(step.payload)
    return Done(result, (lost,), round_steps(step, plan, 1, plan.in_round(1)))


def round_steps(step: ClaimedStep, plan: EpisodePlan, number: int, voices: Collection[str]) -> list[NewStep]:
    name = f"{ROUND_PREFIX}{number}"
    join = NewStep(StepKind.ROUND, str(step.parent_id), name, payload=step.payload, waits=True)
    asked = [voice for voice in VOICES.values() if voice.key in voices]
    steps = [NewStep(StepKind.VOICE, join.id, name, one.role, plan.of_voice(one.key)) for one in asked]
    return [join, *steps]


def end_round(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    number, plan = round_of(step.subject), EpisodePlan.model_validate(step.payload)
    with desk.store.read() as session:
        steps = session.exec(select(Step).where(Step.parent_id == step.id, Step.kind == StepKind.VOICE)).all()
        forecasts = _count(session, step.run_id, number)
    stopped = _stopped(steps)
    following = [voice for voice in plan.in_round(number + 1) if voice not in stopped]
    result: dict[str, Any] = {"forecasts": forecasts}
    if number >= plan.rounds or not following:
        return Done(result, children=[_tally(step)])
    if not forecasts:
        return Done({**result, "notes": [NO_POSITION]}, children=[_tally(step)])
    return Done(result, children=round_steps(step, plan, number + 1, following))


def _count(session: Session, run_id: str, number: int) -> int:
    found = session.exec(select(col(Forecast.id)).where(Forecast.run_id == run_id, Forecast.round == number)).all()
    return len(found)


def _stopped(steps: Sequence[Step]) -> set[str]:
    """Return the voices that a person interrupted: they take part in no later round."""
    return {voice_of(row.role) for row in steps if stopped_by(row.payload)}


def _tally(step: ClaimedStep) -> NewStep:
    return NewStep(StepKind.TALLY, str(step.parent_id), payload=step.payload)
