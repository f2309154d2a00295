"""`desk questions resolve`."""

from __future__ import annotations

from typing import Annotated

import typer
from sqlmodel import Session

from chordesk.models.board import VENUES
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.questions.clocks import clock_of, market_as_of
from chordesk.tasks.cli.render.questions import question_report, resolve_report
from chordesk.tasks.cli.shell import Json, opened, whoami
from chordesk.tasks.views.question_view import question_view
from chordesk.tools.questions.importing import watched
from chordesk.tools.questions.person import ended_text, entered, outcome_of
from chordesk.tools.questions.reading import find_question
from chordesk.tools.questions.resolving import book, resolve_due, settle
from chordesk.tools.venues.factory import build_venue
from chordesk.tools.venues.markets import EventVenue

STILL_OPEN = 1


def resolve(
    question: Annotated[
        str | None, typer.Argument(help="A question's id, or the beginning of it; what is due by default.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="A person's outcome: yes, no, void, or 0 to 1.")] = None,
    why: Annotated[str | None, typer.Option(help="With --outcome: what it rests on.")] = None,
    by: Annotated[str | None, typer.Option(help="Your name, for the record; user@host by default.")] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help="In a replay: with its bars up to this day; its own day by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Resolve what is due from later bars and from venues, or one question; exit code 1 when that one stays open.

    A question resolves once. A person resolves a person's question, and may declare another void that its deadline left
    without data.
    """
    settings, store = opened()
    if outcome is None:
        _resolve_due(settings, store, question, as_of, as_json=as_json)
        return
    if question is None or not (why or "").strip():
        missing = "a question" if question is None else "--why"
        raise UsageError(f"--outcome was given without {missing}", remedy="give the question's id, --outcome and --why")
    with store.session() as session:
        ended = _enter(session, settings, question, outcome_of(outcome), str(why).strip(), by or whoami())
        found = question_view(session, ended)
    emit(found, question_report, as_json=as_json)


def _enter(
    session: Session, settings: Settings, question_id: str, outcome: float | None, why: str, by: str
) -> Question:
    """Write a person's outcome with what rests on it, and return the question. Raises UsageError."""
    from chordesk.tasks.workflows.episode.tally import ON_RESOLVED  # it loads the workflows

    question = find_question(session, question_id)
    of_venue = question.source in VENUES
    now = utcnow() if of_venue else clock_of(settings).now()
    ended = settle(session, question.id, entered(question, outcome, why, by, now), by)
    if ended is None:
        session.refresh(question)
        raise UsageError(f"question {question.id} {ended_text(question)}", remedy="a question resolves once")
    book(session, ended, settings.account, ON_RESOLVED)
    return ended


def _resolve_due(settings: Settings, store: Store, question: str | None, as_of: str | None, *, as_json: bool) -> None:
    from chordesk.tasks.workflows.episode.tally import ON_RESOLVED

    market, only = market_as_of(settings, as_of), None
    if question is not None:
        with store.read() as session:
            found = find_question(session, question)
        if found.market not in ("", market.name):
            reason = f"question {found.id} is resolved by bars of the {found.market} market, and this is {market.name}"
            raise UsageError(reason, remedy="choose that market by DESK_MARKET, with the same data")
        only = found.id
    report = resolve_due(
        *(store, market, settings.account),
        on_resolved=ON_RESOLVED, venues=_venues(settings, store), only=only, by="desk questions resolve",
    )  # fmt: skip
    if only is None:
        emit(report, resolve_report, as_json=as_json)
        return
    with store.read() as session:
        view = question_view(session, session.get_one(Question, only))
    emit(view, question_report, as_json=as_json)
    if view["question"]["state"] == "open":
        raise typer.Exit(STILL_OPEN)


def _venues(settings: Settings, store: Store) -> dict[str, EventVenue]:
    """Return the wires of venues of which there are questions to look at; a person asks, so all venues are read."""
    with store.read() as session:
        names = {question.source for question in watched(session, VENUES, utcnow())}
    return {name: build_venue(name, settings) for name in sorted(names)}
