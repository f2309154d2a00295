"""Questions in words: `GET /asks` answers from rows; `POST /asks` keeps its answers, and asks a model for the rest. The
dialogues, what changed, and proposals with a person's answer to each."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StringConstraints

from chordesk.agents.role_models import role_models
from chordesk.models.answers import Frozen
from chordesk.models.asking.proposals import AskingProposal
from chordesk.models.asking.tables import AskingEntry
from chordesk.models.errors import NotWaiting, UsageError
from chordesk.models.orders import HASH_SHOWN
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.asking import confirming
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
from chordesk.tasks.asking.lookup import PROPOSE, answer
from chordesk.tasks.asking.proposing import CONFIRMED, DONE, Asker, from_text, newest, proposed, waiting
from chordesk.tasks.asking.questions import LONGEST, cleaned
from chordesk.tasks.engine.budgets import RULES
from chordesk.tasks.named_tokens import CALLER, OWNER, Caller, Scope
from chordesk.tasks.proposals import Office, ProposalScope, Proposed, find
from chordesk.tasks.reading.accounts import find_account
from chordesk.tasks.reading.changes import Changes, changes, since_of
from chordesk.tasks.web.context import Context, ServiceContext
from chordesk.tasks.web.idempotency import WriteRoute, decided_once
from chordesk.tasks.web.problems import Problem, problem
from chordesk.tasks.web.problems import answer as refusal
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
    """Return the entry of an answer from rows, or of what was proposed; None where a model is to be asked. Rules know
    no more than the rows."""
    made = from_text(_office(context), body.question, Asker(body.by, f"the {body.origin}"))
    if made is not None:
        told = f"Proposed: {made.title}. Nothing is done until a person confirms it."
        given = Answer(question=cleaned(body.question), intent=PROPOSE, text=told, facts={"proposal": made.id})
        entry_id = keep_answer(context.store, given, body.by, body.origin, account, dialogue).id
        with context.store.session() as session:
            session.get_one(AskingProposal, made.id).entry = entry_id
        return entry_id
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


proposals_router = APIRouter(tags=["proposals"], route_class=WriteRoute)
ROAD = "the API"
# By what a token may, the acts that its holder confirms.
MAY = {
    Scope.START: {ProposalScope.START},
    Scope.DECIDE: {ProposalScope.DECIDE},
    Scope.OPERATE: {ProposalScope.OPERATE, ProposalScope.STOP, ProposalScope.HALT},
}
_FORBIDDEN: dict[int | str, dict[str, Any]] = {
    403: {"model": Problem, "description": "The token may not do what was proposed."}
}


class Wish(Frozen):
    """What a person wants done, in words."""

    by: Person
    text: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]


class Yes(Frozen):
    """expect: the hash of the card that the person saw, or its first 12 letters."""

    by: Person
    expect: str = Field(pattern=HASH_SHOWN)


class No(Frozen):
    by: Person


@proposals_router.get("/proposals")
def proposals(
    context: Context,
    over: Annotated[bool, Query(description="those that are over too, the newest first")] = False,
    limit: Limit = 50,
) -> list[Proposed]:
    """List acts that were proposed and wait for a person, the oldest first."""
    with context.store.read() as session:
        rows = newest(session, limit) if over else waiting(session)[:limit]
        return [proposed(row, context.settings) for row in rows]


@proposals_router.get("/proposals/{id_}")
def proposal(context: Context, id_: Id) -> Proposed:
    """Show a proposal: what it does and costs, and what became of it."""
    with context.store.read() as session:
        return proposed(confirming.find_row(session, id_), context.settings)


@proposals_router.post("/proposals", status_code=HTTPStatus.CREATED)
def propose(context: Context, body: Wish) -> Proposed:
    """Propose what a person's words ask for. Nothing is done: somebody who may confirms it."""
    office = _office(context)
    row = from_text(office, body.text, Asker(body.by, ROAD))
    if row is None:
        remedy = "begin with what to do, such as: stop run 01a226c8, research AAPL, halt"
        raise UsageError("the words ask for no act that is proposed", remedy=remedy)
    return proposed(row, context.settings)


@proposals_router.post("/proposals/{id_}/confirm", response_model=Proposed, responses=_FORBIDDEN)
@decided_once
def confirm(context: Context, request: Request, id_: Id, body: Yes) -> Proposed | Response:
    """Do what was proposed, once, as the card showed it.

    Whoever confirms it again is told what became of it.
    """
    found = proposal(context, id_)
    scopes = _scopes(request)
    if found.scope not in scopes:
        return _forbidden(found)
    app = None
    if found.open and find(found.kind).opens:
        context.require_agreement()
        app = context.notifier.app()
    office = _office(context, app)
    log.info("api.confirm", proposal=found.id, act=found.kind, by=body.by)
    with context.store.session() as session:
        confirming.confirm(session, office, found.id, body.expect, body.by, ROAD, scopes)
    confirming.finish(office, found.id)
    done = proposal(context, found.id)
    if done.state not in (DONE, CONFIRMED):
        raise NotWaiting(f"{done.title}: {done.fate}", remedy="ask for it again")
    return done


@proposals_router.post("/proposals/{id_}/dismiss", response_model=Proposed, responses=_FORBIDDEN)
@decided_once
def dismiss(context: Context, request: Request, id_: Id, body: No) -> Proposed | Response:
    """Say no: nothing is done. Whoever asked for it may, and whoever could confirm it."""
    found = proposal(context, id_)
    if found.scope not in _scopes(request) and body.by != found.by:
        return _forbidden(found)
    with context.store.session() as session:
        return proposed(confirming.dismiss(session, _office(context), found.id, body.by, ROAD), context.settings)


def _office(context: ServiceContext, app: Any = None) -> Office:
    return Office(context.settings, context.store, lambda: context.desk, (lambda: app) if app is not None else None)


def _scopes(request: Request) -> set[ProposalScope]:
    caller: Caller = request.scope.get(CALLER, OWNER)
    return {one for scope in caller.scopes for one in MAY.get(scope, ())}


def _forbidden(found: Proposed) -> Response:
    wanted = next(scope for scope, acts in MAY.items() if found.scope in acts)
    detail, remedy = f"this token may not {wanted}", f"make one that may: `desk tokens add NAME --scope {wanted}`"
    return refusal(problem(HTTPStatus.FORBIDDEN, "wrong_scope", f"{detail}; {found.title}", remedy))
