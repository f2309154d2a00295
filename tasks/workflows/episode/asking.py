"""The questions of an episode: those that a person named, of a run's verdicts, or the desk's choice."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session, col, select

from chordesk.models.research import Rating
from chordesk.models.states import RunKind
from chordesk.models.tables.questions import Question, VerdictQuestion
from chordesk.models.tables.runs import Candidate, Run, Verdict
from chordesk.tasks.workflows.episode.symbols import ChosenSymbols, choose_symbols
from chordesk.tools.harvest.context import listed
from chordesk.tools.questions.choosing import Chosen, askable, choose
from chordesk.tools.questions.desk import relative_questions, store_relative, unaskable
from chordesk.tools.registry import ToolContext

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
    """Return the rows of the questions on an episode's symbols. Reads the market, and is called before the transaction
    of `questions_for`: live, prices take seconds."""
    if run.kind != RunKind.EPISODE or not symbols.symbols:
        return []
    settings = context.settings
    return relative_questions(context.market, symbols.symbols, settings.universe, settings.question_sessions)


def questions_for(
    session: Session, run: Run, context: ToolContext, symbols: ChosenSymbols, rows: Sequence[Question]
) -> list[Chosen]:
    """Return the questions of an episode, at most as many as the settings say. rows: of `relative_rows`; those that are
    not there yet are written. One without a baseline is left out."""
    if run.kind != RunKind.EPISODE:
        return _of_verdicts(session, run, context, symbols.symbols)
    settings, named = context.settings, _named(session, run, context)
    store_relative(session, rows)
    if named and not symbols.symbols:
        return named[: settings.questions]
    limit = _ALL if symbols.source == NAMED else settings.questions
    found = choose(session, context.market, context.clock.now(), context.account, limit, symbols.symbols)
    if symbols.source == NAMED:
        asked = set(symbols.symbols)
        found = [one for one in found if asked & set(one.question.subjects)]
    ids = {one.question.id for one in named}
    return [*named, *(one for one in found if one.question.id not in ids)][: settings.questions]


def left_out(run: Run, context: ToolContext, symbols: ChosenSymbols, chosen: Sequence[Chosen]) -> list[str]:
    """Return a note for what is not asked about: a symbol without a price, and what a person named beyond the most
    questions of an episode, or that has closed meanwhile."""
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
    why = f"an episode has at most {most} questions (DESK_QUESTIONS)" if len(chosen) >= most else "no longer open"
    return [*notes, f"not asked: {listed(rest)}: {why}"]


def _bought(session: Session, run: Run) -> list[str]:
    """Return the symbols that a run rated BUY, by rank."""
    rows = select(Verdict.symbol).join(Candidate, col(Candidate.id) == col(Verdict.candidate_id))
    bought = rows.where(Verdict.run_id == run.id, Verdict.rating == Rating.BUY)
    return list(session.exec(bought.order_by(col(Candidate.rank))).all())


def _named(session: Session, run: Run, context: ToolContext) -> list[Chosen]:
    """Return the questions that a person named and that are open now, in the order given."""
    if not run.params["questions"]:
        return []
    order = {one: place for place, one in enumerate(run.params["questions"])}
    rows = [one for one in askable(session, context.market, context.clock.now()) if one.id in order]
    return [Chosen(one, NAMED) for one in sorted(rows, key=lambda one: order[one.id])]


def _of_verdicts(session: Session, run: Run, context: ToolContext, symbols: Sequence[str]) -> list[Chosen]:
    """Return the questions by which a run's BUY verdicts are scored, by rank; they were written with the verdicts."""
    rows = session.exec(
        select(Question, Verdict.symbol)
        .join(VerdictQuestion, col(VerdictQuestion.question_id) == col(Question.id))
        .join(Verdict, col(Verdict.id) == col(VerdictQuestion.verdict_id))
        .where(Verdict.run_id == run.id, col(Verdict.symbol).in_(symbols), col(Question.baseline).is_not(None))
    ).all()
    ranked = sorted(rows, key=lambda row: symbols.index(row[1]))
    return [Chosen(question, RATED) for question, _ in ranked[: context.settings.questions]]
