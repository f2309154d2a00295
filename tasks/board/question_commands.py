"""`desk questions` with its subcommands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from sqlmodel import Session

from chordesk.models.board.forecasts import VENUES
from chordesk.models.errors import MarketError, SettingError, UsageError
from chordesk.models.questions import QuestionSource, QuestionState
from chordesk.models.settings import REPLAYING, Settings
from chordesk.tasks.cli.output import emit, warn
from chordesk.tasks.cli.shell import Json, day_of, looks, opened, whoami

if TYPE_CHECKING:
    from chordesk.models.database.store import Store
    from chordesk.models.tables.board import Question, QuestionPair
    from chordesk.tools.board.venues.markets import EventVenue
    from chordesk.tools.market.protocol import MarketClock, MarketData

commands = typer.Typer(
    name="questions", help="Questions that resolve: the desk's, people's, markets'.", no_args_is_help=True
)
NOTHING = "no such questions; `desk questions add` asks one, and so does each verdict BUY or PASS"


@commands.command("list")
@looks("no questions yet")
def list_(
    state: Annotated[QuestionState | None, typer.Option(help="In this state.")] = None,
    source: Annotated[QuestionSource | None, typer.Option(help="Of this origin.")] = None,
    about: Annotated[str | None, typer.Option(help="On this symbol.")] = None,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List questions: open ones by their closing, then the newest outcomes."""
    from chordesk.tasks.board.question_display import question_list
    from chordesk.tools.questions.stored_questions import list_questions

    with opened()[1].read() as session:
        subject = about.strip().upper() if about else None
        rows = list_questions(session, state=state, source=source, subject=subject, limit=limit)
    emit([row.model_dump() for row in rows], lambda _: question_list(rows) if rows else NOTHING, as_json=as_json)


@commands.command("show")
@looks("no questions yet", as_json="null")
def show(
    question: Annotated[str, typer.Argument(help="A question's id, or the beginning of it.")], as_json: Json = False
) -> None:
    """Show a question: rule, times, outcome with its evidence, forecasts, verdicts."""
    from chordesk.tasks.board.question_display import question_report
    from chordesk.tasks.reading.scores import question_detail

    with opened()[1].read() as session:
        found = question_detail(session, _question(session, question))
    emit(found, question_report, as_json=as_json)


def _question(session: Session, part: str) -> Question:
    from chordesk.models.database.lookup import by_prefix
    from chordesk.models.tables.board import Question

    return by_prefix(session, Question, part, lists="`desk questions list` shows them")


def clock_of(settings: Settings) -> MarketClock:
    from chordesk.tools.market.clock import LiveClock, ReplayClock

    if settings.market in REPLAYING:
        return ReplayClock(settings.replay_date, exchange=settings.exchange)
    return LiveClock(settings.exchange)


def market_as_of(settings: Settings, day: str | None) -> MarketData:
    """By default the settings' own day. Raises UsageError for a day that the data lack, and for a market in real
    time."""
    from chordesk.tools.market.factory import build_market, configured_market

    key = configured_market(settings)
    if day is None:
        return build_market(settings, key)
    wanted = day_of("--as-of", day)
    if key.day is None:
        reason = f"--as-of {wanted} names a day of a replay, and DESK_MARKET={key.name} is in real time"
        raise UsageError(reason, remedy="leave it out")
    try:
        return build_market(settings, key._replace(day=wanted))
    except SettingError as error:
        reason = str(error.args[0]).replace(f"DESK_REPLAY_DATE={wanted}", f"--as-of {wanted}")
        raise UsageError(reason, remedy=error.remedy) from None


By = Annotated[str | None, typer.Option("--by", help="Your name, for the record; user@host by default.")]


@commands.command("add")
def add(
    text: Annotated[str, typer.Argument(help="The question; yes must mean one thing.")],
    closes: Annotated[str, typer.Option(help="When it closes: a day, at 16:00 New York, or a time in New York.")],
    opens: Annotated[str | None, typer.Option(help="When it opens; now by default.")] = None,
    baseline: Annotated[float | None, typer.Option(help="Probability of yes without the desk; 0.5 by default.")] = None,
    about: Annotated[str, typer.Option(help="Symbols that it is about, by comma.")] = "",
    by: By = None,
    as_json: Json = False,
) -> None:
    """Ask a question that a person will resolve.

    Times are the market's: in a replay, those of its day.
    """
    from chordesk.tools.questions.person import add_question, moment_of

    settings, store = opened()
    closing, opening = moment_of("--closes", closes), opens and moment_of("--opens", opens, at=dt.time())
    with store.session() as session:
        asked = add_question(
            *(session, text, closing, by or whoami(), clock_of(settings).now()),
            opens_at=opening or None, baseline=baseline, about=about.split(","),
        )  # fmt: skip
    emit(asked.model_dump(), lambda _: f"question {asked.id}: {asked.text}", as_json=as_json)


@commands.command("import")
def import_(
    source: Annotated[str, typer.Argument(help="manifold, polymarket or kalshi; or a file or folder of questions.")],
    term: Annotated[str | None, typer.Option(help="Import open markets on this term.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Import this market, by the venue's id.")] = None,
    limit: Annotated[int, typer.Option(help="With --term: at most so many.", min=1, max=100)] = 10,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Import questions of an event market or of files, or refresh their prices.

    A market is sent nothing but the request. Files: ForecastBench, Metaculus, Manifold, or what desk questions export
    writes; a row that cannot be a question is named, and the others are imported.
    """
    if source not in VENUES:
        _import_files(source, term or id_, by or whoami(), as_json=as_json)
        return
    from chordesk.tasks.board.question_display import import_report
    from chordesk.tools.board.venue_questions import import_one, import_term
    from chordesk.tools.board.venues.named_venues import build_venue

    if (term is None) == (id_ is None):
        given = "neither" if term is None else "both"
        raise UsageError(f"{given} of --term and --id given", remedy="give one of them")
    settings, store = opened()
    wire, name = build_venue(source), by or whoami()
    try:
        if id_ is not None:
            report = import_one(store, wire, id_, name)
        else:
            report = import_term(store, wire, term or "", limit, name)
    except MarketError as error:
        later = "try again later" if error.retryable else f"give {source}'s own id, or --term"
        error.remedy = error.remedy or f"nothing was imported; {later}"
        raise
    warn(_warnings(settings, source))
    emit(report, import_report, as_json=as_json)


def _import_files(source: str, of_venue: str | None, by: str, *, as_json: bool) -> None:
    from chordesk.models.tables.columns import utcnow
    from chordesk.tasks.board.question_display import folder_report
    from chordesk.tools.board.question_files import Importing, import_files

    path = Path(source)
    if not path.exists():
        reason = f"{source!r} is no venue, and no file or folder"
        raise UsageError(reason, remedy=f"give {', '.join(VENUES)}, or the path of questions")
    if of_venue is not None:
        raise UsageError(f"{source} is a path: --term and --id are for venues", remedy="leave them out")
    settings, store = opened()
    report = import_files(store, path, Importing(by, clock_of(settings).now(), utcnow()))
    emit(report, folder_report, as_json=as_json)


@commands.command("export")
def export(
    into: Annotated[Path, typer.Argument(help="The CSV to write, which desk questions import reads.")],
    state: Annotated[QuestionState | None, typer.Option(help="In this state.")] = None,
    source: Annotated[QuestionSource | None, typer.Option(help="Of this origin.")] = None,
    as_json: Json = False,
) -> None:
    """Write questions to a CSV, with their criteria and background."""
    from chordesk.tools.board.question_files import export_csv
    from chordesk.tools.questions.stored_questions import list_questions

    with opened()[1].read() as session:
        rows = list_questions(session, state=state, source=source, limit=None)
    count = export_csv(rows, into)
    emit({"questions": count, "file": str(into)}, lambda _: f"{count:,} questions in {into}", as_json=as_json)


def _warnings(settings: Settings, venue: str) -> list[str]:
    found = []
    if venue not in settings.venues:
        found.append(f"DESK_VENUES does not name {venue}: only `desk questions resolve` reads its outcomes")
    if (day := clock_of(settings).day) is not None:
        found.append(f"this desk replays {day}: its episodes ask no {QuestionSource(venue)} question of today")
    return found


STILL_OPEN = 1


@commands.command("resolve")
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
    """Resolve due questions from later bars and venues, or one question.

    Exit code 1 when the named one stays open. A question resolves once.

    A person resolves a person's question, and may declare another void that its deadline left without data.
    """
    from chordesk.tasks.board.question_display import question_report
    from chordesk.tasks.reading.scores import question_detail
    from chordesk.tools.questions.person import outcome_of

    settings, store = opened()
    if outcome is None:
        _resolve_due(settings, store, question, as_of, as_json=as_json)
        return
    if question is None or not (why or "").strip():
        missing = "a question" if question is None else "--why"
        raise UsageError(f"--outcome was given without {missing}", remedy="give the question's id, --outcome and --why")
    with store.session() as session:
        ended = _enter(session, settings, question, outcome_of(outcome), str(why).strip(), by or whoami())
        found = question_detail(session, ended)
    emit(found, question_report, as_json=as_json)


def _enter(
    session: Session, settings: Settings, question_id: str, outcome: float | None, why: str, by: str
) -> Question:
    from chordesk.models.tables.columns import utcnow
    from chordesk.tasks.board.episode.tally import ON_RESOLVED  # it loads the workflows
    from chordesk.tools.questions.person import ended_text, entered
    from chordesk.tools.questions.resolving import book, settle

    question = _question(session, question_id)
    of_venue = question.source in VENUES
    now = utcnow() if of_venue else clock_of(settings).now()
    ended = settle(session, question.id, entered(question, outcome, why, by, now), by)
    if ended is None:
        session.refresh(question)
        raise UsageError(f"question {question.id} {ended_text(question)}", remedy="a question resolves once")
    book(session, ended, settings.account, ON_RESOLVED)
    return ended


def _resolve_due(settings: Settings, store: Store, question: str | None, as_of: str | None, *, as_json: bool) -> None:
    from chordesk.tasks.board.episode.tally import ON_RESOLVED
    from chordesk.tasks.board.question_display import question_report, resolve_report
    from chordesk.tasks.reading.scores import question_detail
    from chordesk.tools.board.venue_questions import VenueResolver
    from chordesk.tools.questions.resolving import resolve_due

    market, only = market_as_of(settings, as_of), None
    if question is not None:
        with store.read() as session:
            found = _question(session, question)
        if found.market not in ("", market.name):
            reason = f"question {found.id} is resolved by bars of the {found.market} market, and this is {market.name}"
            raise UsageError(reason, remedy="choose that market by DESK_MARKET, with the same data")
        only = found.id
    report = resolve_due(
        *(store, market, settings.account),
        on_resolved=ON_RESOLVED, resolvers=[VenueResolver(_venues(store))], only=only, by="desk questions resolve",
        delisted_pays=settings.delisted_pays,
    )  # fmt: skip
    if only is None:
        emit(report, resolve_report, as_json=as_json)
        return
    with store.read() as session:
        view = question_detail(session, _question(session, only))
    emit(view, question_report, as_json=as_json)
    if view.question.state == QuestionState.OPEN:
        raise typer.Exit(STILL_OPEN)


def _venues(store: Store) -> dict[str, EventVenue]:
    """Return the wires of venues of which there are questions to look at; a person asks, so all venues are read."""
    from chordesk.models.tables.columns import utcnow
    from chordesk.tools.board.venue_questions import watched
    from chordesk.tools.board.venues.named_venues import build_venue

    with store.read() as session:
        names = {question.source for question in watched(session, VENUES, utcnow())}
    return {name: build_venue(name) for name in sorted(names)}


First = Annotated[str, typer.Argument(help="A question's id, or the beginning of it.", metavar="A")]
Second = Annotated[str, typer.Argument(help="That of the other question.", metavar="B")]
PairedBy = Annotated[str, typer.Option("--by", help="Your name: a person decides.", metavar="NAME")]
Why = Annotated[str | None, typer.Option("--why", help="The reason, which is kept with it.")]


@commands.command("pairs")
def pairs(
    suggest: Annotated[bool, typer.Option("--suggest", help="Look for likely pairs of open questions first.")] = False,
    prices: Annotated[bool, typer.Option("--prices", help="Ask the venues, and show gaps and edges of now.")] = False,
    rejected: Annotated[bool, typer.Option("--rejected", help="Show rejected pairs too.")] = False,
    as_json: Json = False,
) -> None:
    """Show pairs of questions that are the same, or may be."""
    from chordesk.tasks.board.question_display import pairs_report, survey_report
    from chordesk.tools.board.venues.named_venues import build_venues
    from chordesk.tools.board.venues.pairs import (
        CONFIRMED,
        REJECTED,
        SUGGESTED,
        list_pairs,
        suggest_pairs,
        survey_pairs,
    )

    settings, store = opened()
    states = (CONFIRMED, SUGGESTED, REJECTED) if rejected else (CONFIRMED, SUGGESTED)
    with store.session() as session:
        if suggest:
            suggest_pairs(session)
        found = list_pairs(session, states)
    if prices:
        survey = survey_pairs(found, build_venues(settings), settings.risk_free_rate)
        emit(survey, survey_report, as_json=as_json)
    else:
        emit(found, pairs_report, as_json=as_json)


@commands.command("pair")
def pair(
    first: First,
    second: Second,
    by: PairedBy,
    inverse: Annotated[bool, typer.Option("--inverse", help="YES of one is NO of the other.")] = False,
    why: Why = None,
    as_json: Json = False,
) -> None:
    """Confirm that two questions are the same, after reading both rules.

    Only then a gap can be an arbitrage.
    """
    from chordesk.tools.board.venues.pairs import confirm_pair

    _decide(partial(confirm_pair, by=by, inverse=inverse, why=why), first, second, as_json=as_json)


@commands.command("unpair")
def unpair(first: First, second: Second, by: PairedBy, why: Why = None, as_json: Json = False) -> None:
    """Reject a pair of questions; it is not suggested again."""
    from chordesk.tools.board.venues.pairs import reject_pair

    _decide(partial(reject_pair, by=by, why=why), first, second, as_json=as_json)


def _decide(decided: Callable[..., QuestionPair], first: str, second: str, *, as_json: bool) -> None:
    from chordesk.tasks.board.question_display import pair_line
    from chordesk.tools.board.venues.pairs import PairedQuestions

    with opened()[1].session() as session:
        one, other = _question(session, first), _question(session, second)
        row = decided(session, one, other)
        session.flush()
        found = PairedQuestions(row, one, other)
    emit(found, pair_line, as_json=as_json)


@commands.command("positions")
def positions(
    only_open: Annotated[bool, typer.Option("--open", help="Only those that are not paid out.")] = False,
    account: Annotated[str | None, typer.Option("--account", help="Another account than that of the settings.")] = None,
    as_json: Json = False,
) -> None:
    """Show the play money on event markets: bankroll, stakes, payouts."""
    from chordesk.tasks.board.question_display import ledger_report
    from chordesk.tools.board.event_positions import EVENT_BANKROLL, event_ledger

    settings, store = opened()
    with store.read() as session:
        found = event_ledger(session, account or settings.account, EVENT_BANKROLL, only_open=only_open)
    emit(found, ledger_report, as_json=as_json)
