"""`desk questions list` and `desk questions show`."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.models.board import QuestionSource, QuestionState
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.render.questions import question_list, question_report
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tasks.views.question_view import question_view
from chordesk.tools.questions.reading import find_question, list_questions

NOTHING = "no such questions; `desk questions add` asks one, and so does each verdict BUY or PASS"


def list_(
    state: Annotated[QuestionState | None, typer.Option(help="In this state.")] = None,
    source: Annotated[QuestionSource | None, typer.Option(help="Of this origin.")] = None,
    about: Annotated[str | None, typer.Option(help="On this symbol.")] = None,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List questions: open ones first, what closes soonest at the top, then the newest outcomes."""
    with opened()[1].read() as session:
        subject = about.strip().upper() if about else None
        rows = list_questions(session, state=state, source=source, subject=subject, limit=limit)
    emit([row.model_dump() for row in rows], lambda _: question_list(rows) if rows else NOTHING, as_json=as_json)


def show(
    question: Annotated[str, typer.Argument(help="A question's id, or the beginning of it.")],
    as_json: Json = False,
) -> None:
    """Show a question: its rule, its times, its outcome with the evidence, and the forecasts and verdicts on it."""
    with opened()[1].read() as session:
        found = question_view(session, find_question(session, question))
    emit(found, question_report, as_json=as_json)
