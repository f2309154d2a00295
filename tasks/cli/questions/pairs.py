"""`desk questions pairs`, `pair` and `unpair`: questions of two venues that may be the same, as a person decides."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.render.results.pairs import pair_line, pairs_report, survey_report
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tools.questions.reading import find_question
from chordesk.tools.venues.factory import build_venues
from chordesk.tools.venues.pairs import (
    CONFIRMED,
    REJECTED,
    SUGGESTED,
    PairedQuestions,
    confirm_pair,
    list_pairs,
    reject_pair,
    suggest_pairs,
    survey_pairs,
)

First = Annotated[str, typer.Argument(help="A question's id, or the beginning of it.", metavar="A")]
Second = Annotated[str, typer.Argument(help="That of the other question.", metavar="B")]
By = Annotated[str, typer.Option("--by", help="Your name: a person decides.", metavar="NAME")]
Why = Annotated[str | None, typer.Option("--why", help="The reason, which is kept with it.")]


def pairs(
    suggest: Annotated[bool, typer.Option("--suggest", help="Look for likely pairs of open questions first.")] = False,
    prices: Annotated[bool, typer.Option("--prices", help="Ask the venues, and show gaps and edges of now.")] = False,
    rejected: Annotated[bool, typer.Option("--rejected", help="Show rejected pairs too.")] = False,
    as_json: Json = False,
) -> None:
    """Show pairs of questions that may be the same, or are, as a person decided."""
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


def pair(
    first: First,
    second: Second,
    by: By,
    inverse: Annotated[bool, typer.Option("--inverse", help="YES of one is NO of the other.")] = False,
    why: Why = None,
    as_json: Json = False,
) -> None:
    """Confirm that two questions are the same, after reading the rules of both; only then a gap can be an arbitrage."""
    _, store = opened()
    with store.session() as session:
        one, other = find_question(session, first), find_question(session, second)
        row = confirm_pair(session, one, other, by, inverse=inverse, why=why)
        session.flush()
        found = PairedQuestions(row, one, other)
    emit(found, pair_line, as_json=as_json)


def unpair(first: First, second: Second, by: By, why: Why = None, as_json: Json = False) -> None:
    """Reject a pair of questions; it is not suggested again."""
    _, store = opened()
    with store.session() as session:
        one, other = find_question(session, first), find_question(session, second)
        row = reject_pair(session, one, other, by, why=why)
        session.flush()
        found = PairedQuestions(row, one, other)
    emit(found, pair_line, as_json=as_json)
