"""Routes of questions."""

from __future__ import annotations

from fastapi import APIRouter

from chordesk.models.board import QuestionSource, QuestionState
from chordesk.models.tables.board import Question
from chordesk.tasks.views.question_view import question_view
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.schemas import Id, IdFilter, Limit, Offset, QuestionDetail
from chordesk.tasks.web.security import JsonRoute
from chordesk.tools.questions.reading import find_question, list_questions

router = APIRouter(tags=["questions"], route_class=JsonRoute)


@router.get("/questions")
def questions(
    context: Context,
    state: QuestionState | None = None,
    source: QuestionSource | None = None,
    about: IdFilter = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[Question]:
    """List questions: open ones first, what closes soonest at the top, then the newest outcomes. about: a symbol."""
    with context.store.read() as session:
        subject = about.upper() if about else None
        rows = list_questions(session, state=state, source=source, subject=subject, limit=limit, offset=offset)
        return list(rows)


@router.get("/questions/{question_id}")
def question(context: Context, question_id: Id) -> QuestionDetail:
    """Show a question: its rule, its times, its outcome with the evidence, and what it scores."""
    with context.store.read() as session:
        return QuestionDetail.model_validate(question_view(session, find_question(session, question_id)))
