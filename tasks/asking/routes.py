"""`GET /asks`: a question in words, answered from rows; `GET /changes`: what changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from chordesk.models.tables.columns import utcnow
from chordesk.tasks.asking.answers import Answer
from chordesk.tasks.asking.lookup import answer
from chordesk.tasks.reading.accounts import find_account
from chordesk.tasks.reading.changes import Changes, changes, since_of
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.schemas import IdFilter, Limit
from chordesk.tasks.web.security import JsonRoute

LONGEST_IN_ADDRESS = 2_000  # characters, of up to twelve bytes each there: the server takes no address above 64 KB
router = APIRouter(tags=["asks"], route_class=JsonRoute)
Since = Annotated[str | None, Query(max_length=40, description="90m, 6h, 2d, 1w, a day or a time; else the last close")]


@router.get("/asks")
def asks(
    context: Context,
    q: Annotated[str, Query(min_length=1, max_length=LONGEST_IN_ADDRESS, description="in English")] = "help",
    account: IdFilter = None,
) -> Answer:
    """Answer a question about the desk from its rows.

    No model is asked. A question that is not understood has an empty intent, and the text says what can be asked.
    """
    return answer(context.settings, context.store, context.desk.account_market, q, account)


@router.get("/changes")
def what_changed(context: Context, since: Since = None, account: IdFilter = None, limit: Limit = 40) -> Changes:
    """Show what changed on an account: runs, ratings, orders, fills, theses, plans, halts, settings.

    With what came of its equity, and the tokens that were spent.
    """
    begun = since_of(since, context.settings, utcnow())
    with context.store.read() as session:
        name = find_account(session, context.settings, account or context.settings.account)
        return changes(session, context.settings, name, begun, limit)
