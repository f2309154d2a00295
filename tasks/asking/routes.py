"""Questions in words: `GET /asks` answers from rows; `POST /asks` keeps its answers, and asks a model for the rest. The
dialogues, and what changed."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

import structlog
from fastapi import APIRouter, Query, Response
from pydantic import Field, StringConstraints

from chordesk.agents.role_models import role_models
from chordesk.models.answers import Frozen
from chordesk.models.asking.tables import AskingEntry
from chordesk.models.errors import UsageError
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.asking.answers import Answer
from chordesk.tasks.asking.clerk_runs import AskRequest
from chordesk.tasks.asking.dialogues import (
    ASKED,
    DialogueView,
    EntryView,
    dialogue_entries,
    dialogues,
    entry_of,
    entry_view,
    keep_answer,
    named_dialogue,
    whole_dialogue,
)
from chordesk.tasks.asking.lookup import answer
from chordesk.tasks.asking.questions import LONGEST, cleaned
from chordesk.tasks.engine.budgets import RULES
from chordesk.tasks.reading.accounts import find_account
from chordesk.tasks.reading.changes import Changes, changes, since_of
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.idempotency import WriteRoute
from chordesk.tasks.web.schemas import Id, IdFilter, Limit
from chordesk.tasks.web.security import JsonRoute
from chordesk.tasks.workflows.runs import Person, with_budget

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


log = structlog.get_logger(__name__)
asks_router = APIRouter(tags=["asks"], route_class=WriteRoute)


class Asking(Frozen):
    """A question. dialogue: the id of one that it goes on with, or its beginning; model: ask a model, also what the
    rows answer at once; budget_tokens: of a model's answer."""

    by: Person
    question: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
    dialogue: Annotated[str, StringConstraints(min_length=6, max_length=64)] | None = None
    account: Annotated[str, StringConstraints(min_length=1, max_length=60)] | None = None
    model: bool = False
    origin: Literal["program", "page"] = "program"
    budget_tokens: int | None = Field(default=None, ge=1)


@asks_router.post("/asks", status_code=HTTPStatus.CREATED)
def ask(context: Context, body: Asking, response: Response) -> EntryView:
    """Answer a question from the desk's rows, else ask a model in a run, and keep both.

    With 202 the answer is not there yet: its state is `asked`, and `GET /asks/{id}` has it once the run has ended.
    """
    settings = context.settings
    with context.store.read() as session:
        account = find_account(session, settings, body.account or settings.account)
        dialogue = named_dialogue(session, body.dialogue, account) if body.dialogue is not None else None
    entry_id = None if body.model else _from_rows(context, body, account, dialogue)
    if entry_id is None:
        entry_id = _by_model(context, body, account, dialogue)
    with context.store.read() as session:
        found = entry_view(session, session.get_one(AskingEntry, entry_id))
    if found.state == ASKED:
        response.status_code = HTTPStatus.ACCEPTED
    return found


def _from_rows(context: ServiceContext, body: Asking, account: str, dialogue: str | None) -> str | None:
    """Return the entry of an answer from rows; None where a model is to be asked. Rules know no more than the rows."""
    found = answer(context.settings, context.store, context.desk.account_market, body.question, account)
    if not found.intent and role_models(context.settings)["clerk"].provider(context.settings) != RULES:
        return None
    return keep_answer(context.store, found, body.by, body.origin, account, dialogue).id


def _by_model(context: ServiceContext, body: Asking, account: str, dialogue: str | None) -> str:
    settings = context.settings
    if account != settings.account:
        raise UsageError(
            f"a model is asked about {settings.account}, and not about {account}",
            remedy="leave the account out, or ask what the look-ups know",
        )
    context.require_agreement()
    asked = AskRequest(
        kind="ask", by=body.by, question=cleaned(body.question), dialogue=dialogue, origin=body.origin,
        budget_tokens=body.budget_tokens,
    )  # fmt: skip
    log.info("api.ask", by=body.by)
    run = asked.open(context.notifier.app(), with_budget(body.budget_tokens))
    return str(run.params["entry"])


@asks_router.get("/asks/{ask}")
def one_ask(context: Context, ask: Id) -> EntryView:
    """Show a kept question with its answer, as far as it has one."""
    with context.store.read() as session:
        return entry_view(session, entry_of(session, ask))


@asks_router.get("/dialogues")
def all_dialogues(context: Context, limit: Limit = 20) -> list[DialogueView]:
    """List dialogues, the last asked one first."""
    with context.store.read() as session:
        return dialogues(session, limit)


@asks_router.get("/dialogues/{dialogue}")
def one_dialogue(context: Context, dialogue: Id) -> list[EntryView]:
    """Show a dialogue: its questions and answers, the oldest first."""
    with context.store.read() as session:
        return [entry_view(session, one) for one in dialogue_entries(session, whole_dialogue(session, dialogue))]
