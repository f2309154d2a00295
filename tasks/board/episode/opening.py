"""The beginning of an episode: on request or on beat, its symbols and questions, and its first step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, StringConstraints
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.agents.board.voices import voices_of
from chordesk.models.answers import Rating
from chordesk.models.database.lookup import by_prefix
from chordesk.models.database.store import transact
from chordesk.models.errors import UsageError
from chordesk.models.questions import ROUNDS
from chordesk.models.states import RUN_FINAL, RunKind, StepKind
from chordesk.models.tables.board import EpisodeQuestion, Question, VerdictQuestion
from chordesk.models.tables.orders import Position
from chordesk.models.tables.runs import Candidate, Run, Verdict
from chordesk.tasks.board.episode.rounds import EpisodePlan, harvest_steps
from chordesk.tasks.board.episode.tally import resolve
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import ID, Look, Request, Symbol, new_run, open_run
from chordesk.tasks.workflows.screen import scheduled_exchange, session_slot
from chordesk.tools.board.harvest_context import listed
from chordesk.tools.board.venues.pairs import CONFIRMED, list_pairs
from chordesk.tools.market.prices import share_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.prices.daily_bars import histories
from chordesk.tools.questions.asking import relative_questions, store_relative, unaskable
from chordesk.tools.questions.stored_questions import Chosen, askable, choose, unused_tools
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.risk.exposure import underlying_of
from chordesk.tools.scoring.track_records import precisions, voice_plans


def open_episode(
    app: DeskApp,
    symbols: Sequence[str] = (),
    questions: Sequence[str] = (),
    rounds: int | None = None,
    *,
    schedule: str | None = None,
    slot: str | None = None,
    market: MarketData | None = None,
    look: Look | None = None,
) -> Run | None:
    """Start an episode. None when this slot of the schedule has its run already. symbols: that its tools look at, and
    that the desk asks about; without any the first step chooses them. questions: ids, or the beginning of each, of open
    questions to ask; without any the first step chooses them. rounds: 2 if not given. market: of the run, the desk's if
    not given. Raises UsageError, NotFound."""
    desk = app.desk
    market = market or desk.market
    most = max(ROUNDS)
    held = most if rounds is None else rounds
    if held not in ROUNDS:
        raise UsageError(f"{held} rounds", remedy=f"give 1 to {most}")
    found = resolve_universe(",".join(symbols), market) if symbols else []
    with desk.store.read() as session:
        asked = [open_question(session, market, part) for part in questions]
    params: dict[str, Any] = {"symbols": found, "questions": list(dict.fromkeys(asked)), "rounds": held}
    run = new_run(desk, RunKind.EPISODE, params, schedule=schedule, slot=slot, market=market)
    try:
        return open_run(app, run, lambda session, row, finish: [NewStep(StepKind.BRIEF, finish)], look)
    except IntegrityError:
        if schedule is None:
            raise
        return None


def open_scheduled(app: DeskApp, schedule: str) -> str | None:
    """None when its exchange is closed today or the slot has its run already."""
    slot = session_slot(scheduled_exchange(app.desk, schedule))
    run = open_episode(app, schedule=schedule, slot=slot) if slot is not None else None
    return run.id if run else None


def open_question(session: Session, market: MarketData, part: str) -> str:
    """An id, or the only one that begins so. Raises UsageError, NotFound, also for one that cannot be forecast now."""
    found = by_prefix(session, Question, part, lists="`desk questions list` shows them")
    now = market.clock.now()
    if not askable(session, market, now, [found.id]):
        why = f"it is {found.state}, closes on {found.closes_at:%Y-%m-%d} and its baseline is {found.baseline}"
        raise UsageError(
            f"question {found.id} cannot be forecast on {now:%Y-%m-%d} on the {market.name} market: {why}",
            remedy="`desk questions list` shows the open ones",
        )
    return found.id


MOVED_SESSIONS = 21


class ChosenSymbols(NamedTuple):
    """Symbols, and where they are from."""

    symbols: list[str]
    source: str


def choose_symbols(session: Session, context: ToolContext, most: int) -> ChosenSymbols:
    """Candidates of the latest screen and holdings; without any, the symbols that moved most."""
    held = _held(session, context)
    run, candidates = _screened(session, context)
    names = [f"candidates of screen {run}"] if candidates else []
    names += ["holdings"] if held else []
    if names:
        return ChosenSymbols(list(dict.fromkeys([*candidates, *held]))[:most], " and ".join(names))
    moved = _moved(context)[:most]
    universe = context.settings.universe
    return ChosenSymbols(moved, f"largest moves of {universe} over {MOVED_SESSIONS} sessions, either way")


def _held(session: Session, context: ToolContext) -> list[str]:
    rows = session.exec(select(Position.symbol).where(Position.account == context.account)).all()
    return sorted({share_of(context.market, underlying_of(symbol)) for symbol in rows})


def _screened(session: Session, context: ToolContext) -> tuple[str, Sequence[str]]:
    run = session.exec(
        select(Run.id)
        .where(
            Run.kind == RunKind.SCREEN,
            Run.account == context.account,
            Run.market == context.market.name,
            col(Run.market_now) <= context.clock.now(),
            col(Run.state).in_(RUN_FINAL),
            col(Run.id).in_(select(Candidate.run_id)),
        )
        .order_by(col(Run.market_now).desc(), col(Run.created_at).desc())
        .limit(1)
    ).first()
    if run is None:
        return "", ()
    named = select(Candidate.symbol).where(Candidate.run_id == run, Candidate.origin == "screen")
    return run, session.exec(named.order_by(col(Candidate.rank))).all()


def _moved(context: ToolContext) -> list[str]:
    """The largest move first; a symbol without enough bars is left out."""
    symbols = resolve_universe(context.settings.universe, context.market)
    moves = {
        one.symbol: abs(float(one.bars.close[-1] / one.bars.close[-1 - MOVED_SESSIONS] - 1))
        for one in histories(context, symbols, Gaps(), MOVED_SESSIONS + 1)
        if len(one.bars.close) > MOVED_SESSIONS
    }
    return sorted(moves, key=lambda symbol: (-moves[symbol], symbol))


NAMED = "named by a person"
RATED = "rated BUY by this run"
_ALL = 10_000


def symbols_for(session: Session, run: Run, context: ToolContext) -> ChosenSymbols:
    """Return the symbols that an episode asks about, and where they are from."""
    if run.kind != RunKind.EPISODE:
        return ChosenSymbols(_bought(session, run), f"BUY verdicts of run {run.id}")
    if run.params["symbols"]:
        return ChosenSymbols(list(run.params["symbols"]), NAMED)
    if run.params["questions"]:
        return ChosenSymbols([], NAMED)
    return choose_symbols(session, context, context.settings.questions)


def relative_rows(run: Run, context: ToolContext, symbols: ChosenSymbols) -> list[Question]:
    """Reads the market, so before the transaction of `questions_for`: live, prices take seconds."""
    if run.kind != RunKind.EPISODE or not symbols.symbols:
        return []
    settings = context.settings
    return relative_questions(context.market, symbols.symbols, settings.universe, settings.question_sessions)


def questions_for(
    session: Session, run: Run, context: ToolContext, symbols: ChosenSymbols, rows: Sequence[Question]
) -> list[Chosen]:
    """At most as many as the settings say. rows: written where missing. One without a baseline is left out."""
    if run.kind != RunKind.EPISODE:
        return _of_verdicts(session, run, context, symbols.symbols)
    settings, named = context.settings, _named(session, run, context)
    store_relative(session, rows)
    if named and not symbols.symbols:
        return one_a_pair(session, named)[: settings.questions]
    limit = _ALL if symbols.source == NAMED else settings.questions
    found = choose(session, context.market, context.clock.now(), context.account, limit, symbols.symbols)
    if symbols.source == NAMED:
        asked = set(symbols.symbols)
        found = [one for one in found if asked & set(one.question.subjects)]
    ids = {one.question.id for one in named}
    whole = [*named, *(one for one in found if one.question.id not in ids)]
    return one_a_pair(session, whole)[: settings.questions]


def one_a_pair(session: Session, chosen: Sequence[Chosen]) -> list[Chosen]:
    """Leave out the second of two questions confirmed as one: one belief must not be two forecasts."""
    pairs = {frozenset((one.first.id, one.second.id)) for one in list_pairs(session, (CONFIRMED,))}
    kept: list[Chosen] = []
    for one in chosen:
        if not any(frozenset((one.question.id, other.question.id)) in pairs for other in kept):
            kept.append(one)
    return kept


def left_out(run: Run, context: ToolContext, symbols: ChosenSymbols, chosen: Sequence[Chosen]) -> list[str]:
    """Notes on symbols without a price, and on what a person named that is not asked."""
    if run.kind != RunKind.EPISODE:
        return []
    asked = {subject for one in chosen for subject in one.question.subjects}
    silent = [symbol for symbol in symbols.symbols if symbol not in asked]
    reasons = unaskable(context.market, silent)
    notes = [f"{symbol} is not asked about: {reason}" for symbol, reason in reasons.items()]
    rest = [symbol for symbol in silent if symbol not in reasons] if symbols.source == NAMED else []
    ids = {one.question.id for one in chosen}
    rest += [f"question {one}" for one in run.params["questions"] if one not in ids]
    if not rest:
        return notes
    most = context.settings.questions
    full = f"an episode has at most {most} questions (DESK_QUESTIONS)"
    why = full if len(chosen) >= most else "no longer open, or confirmed as the same as one that is asked"
    return [*notes, f"not asked: {listed(rest)}: {why}"]


def _bought(session: Session, run: Run) -> list[str]:
    rows = select(Verdict.symbol).join(Candidate, col(Candidate.id) == col(Verdict.candidate_id))
    bought = rows.where(Verdict.run_id == run.id, Verdict.rating == Rating.BUY)
    return list(session.exec(bought.order_by(col(Candidate.rank))).all())


def _named(session: Session, run: Run, context: ToolContext) -> list[Chosen]:
    if not run.params["questions"]:
        return []
    order = {one: place for place, one in enumerate(run.params["questions"])}
    rows = askable(session, context.market, context.clock.now(), list(order))
    return [Chosen(one, NAMED) for one in sorted(rows, key=lambda one: order[one.id])]


def _of_verdicts(session: Session, run: Run, context: ToolContext, symbols: Sequence[str]) -> list[Chosen]:
    rows = session.exec(
        select(Question, Verdict.symbol)
        .join(VerdictQuestion, col(VerdictQuestion.question_id) == col(Question.id))
        .join(Verdict, col(Verdict.id) == col(VerdictQuestion.verdict_id))
        .where(Verdict.run_id == run.id, col(Verdict.symbol).in_(symbols), col(Question.baseline).is_not(None))
    ).all()
    ranked = sorted(rows, key=lambda row: symbols.index(row[1]))
    return [Chosen(question, RATED) for question, _ in ranked[: context.settings.questions]]


NO_QUESTION = "there was no question to forecast"
NO_BUY = "no verdict is BUY: there was no round"
PATIENCE_SECONDS = 60.0


def brief(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
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
        learned = precisions(session, run.account, context.clock.now())
    what = "symbols" if symbols.symbols else "questions"
    notes = [f"{what}: {symbols.source}", *silent] if run.kind == RunKind.EPISODE else []
    notes += [f"left out for their record: {', '.join(plan.extinct)}"] if plan.extinct else []
    asked = [_row(run.id, number, one) for number, one in enumerate(chosen, start=1)]
    board = NewStep(StepKind.BOARD, str(step.parent_id), payload=plan.model_dump(mode="json"), waits=True)
    result = {**found, "questions": len(asked), "notes": notes}
    return Done(result, (asked,), [board, *harvest_steps(board.id, learned)])


def plan_of(session: Session, run: Run, context: ToolContext) -> EpisodePlan:
    settings, now = context.settings, context.clock.now()
    rounds = int(run.params["rounds"]) if run.kind == RunKind.EPISODE else settings.rounds
    voices = [voice.key for voice in voices_of(settings)]
    plans = voice_plans(session, settings, run.account, voices, rounds=rounds, until=now)
    return EpisodePlan(
        rounds=rounds,
        voices=plans,
        extinct=tuple(voice for voice in voices if voice not in plans),
        unused=tuple(unused_tools(session, context.market, now, run.account)),
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


class EpisodeRequest(Request):
    """An episode. symbols: that it asks about; questions: ids of open questions; without any the desk chooses. rounds:
    2 if left out."""

    kind: Literal["episode"]
    symbols: list[Symbol] = Field(default_factory=list, max_length=100)
    questions: list[Annotated[str, StringConstraints(max_length=64, pattern=ID)]] = Field(
        default_factory=list, max_length=40
    )
    rounds: int | None = Field(default=None, ge=1, le=2)

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        made = open_episode(app, self.symbols, self.questions, self.rounds, look=look)
        assert made is not None, "only a scheduled slot can be taken already"
        return made
