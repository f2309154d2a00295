"""`desk questions add` and `desk questions import`."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from chordesk.models.board import QuestionSource
from chordesk.models.errors import MarketError, UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.cli.output import emit, warn
from chordesk.tasks.cli.questions.clocks import clock_of
from chordesk.tasks.cli.render.questions import import_report
from chordesk.tasks.cli.shell import Json, opened, whoami
from chordesk.tools.questions.importing import import_one, import_term
from chordesk.tools.questions.person import add_question, moment_of
from chordesk.tools.venues.factory import build_venue

By = Annotated[str | None, typer.Option("--by", help="Your name, for the record; user@host by default.")]


def add(
    text: Annotated[str, typer.Argument(help="The question; yes must mean one thing.")],
    closes: Annotated[str, typer.Option(help="When it closes: a day, at 16:00 New York, or a time in New York.")],
    opens: Annotated[str | None, typer.Option(help="When it opens; now by default.")] = None,
    baseline: Annotated[float | None, typer.Option(help="Probability of yes without the desk; 0.5 by default.")] = None,
    about: Annotated[str, typer.Option(help="Symbols that it is about, by comma.")] = "",
    by: By = None,
    as_json: Json = False,
) -> None:
    """Ask a question that a person will resolve. Times are the market's: in a replay, those of its day."""
    settings, store = opened()
    closing, opening = moment_of("--closes", closes), opens and moment_of("--opens", opens, at=dt.time())
    with store.session() as session:
        asked = add_question(
            *(session, text, closing, by or whoami(), clock_of(settings).now()),
            opens_at=opening or None, baseline=baseline, about=about.split(","),
        )  # fmt: skip
    emit(asked.model_dump(), lambda _: f"question {asked.id}: {asked.text}", as_json=as_json)


def import_(
    venue: Annotated[str, typer.Argument(help="manifold, polymarket or kalshi.")],
    term: Annotated[str | None, typer.Option(help="Import open markets on this term.")] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Import this market, by the venue's id.")] = None,
    limit: Annotated[int, typer.Option(help="With --term: at most so many.", min=1, max=100)] = 10,
    by: By = None,
    as_json: Json = False,
) -> None:
    """Import questions of an event market, or refresh their prices. Nothing is ever sent to it but the request."""
    if (term is None) == (id_ is None):
        given = "neither" if term is None else "both"
        raise UsageError(f"{given} of --term and --id given", remedy="give one of them")
    settings, store = opened()
    wire, name = build_venue(venue, settings), by or whoami()
    try:
        if id_ is not None:
            report = import_one(store, wire, id_, name)
        else:
            report = import_term(store, wire, term or "", limit, name)
    except MarketError as error:
        later = "try again later" if error.retryable else f"give {venue}'s own id, or --term"
        error.remedy = error.remedy or f"nothing was imported; {later}"
        raise
    warn(_warnings(settings, venue))
    emit(report, import_report, as_json=as_json)


def _warnings(settings: Settings, venue: str) -> list[str]:
    """Return what keeps imported questions from being forecast or resolved by the desk itself."""
    found = []
    if venue not in settings.venues:
        found.append(f"DESK_VENUES does not name {venue}: only `desk questions resolve` reads its outcomes")
    if (day := clock_of(settings).day) is not None:
        found.append(f"this desk replays {day}: its episodes ask no {QuestionSource(venue)} question of today")
    return found
