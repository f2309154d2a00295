"""Runs of the kind `ask`: a question that the look-ups do not know, answered by the clerk in one turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlmodel import Session

from chordesk.agents.asking.clerk import CLERK, clerk_subject
from chordesk.agents.grounding.report import ground
from chordesk.agents.runner import RoleRun
from chordesk.models.answers import Completed, Grounding, ReportStatus
from chordesk.models.asking.proposals import AskingProposal
from chordesk.models.asking.settings import AskingSettings
from chordesk.models.asking.tables import AskingEntry
from chordesk.models.errors import UsageError
from chordesk.models.notices import note
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import with_values
from chordesk.models.settings.schema import own_settings
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.asking.confirming import office_of
from chordesk.tasks.asking.dialogues import ANSWERED, ASKED, FAILED, earlier, entry_view, way_of
from chordesk.tasks.asking.proposing import Asker, add, from_turn, read_outside
from chordesk.tasks.asking.questions import LONGEST, cleaned
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import ID, Look, Request, new_run, open_run, with_budget

ASK, ANSWER = "ask", "answer"
UNLOOKED = "the figures and reasons: nothing was looked up for this answer"


class AskRequest(Request):
    """A question that a model answers. dialogue: the id of one that it goes on with; origin: where it was asked."""

    kind: Literal["ask"]
    question: str = Field(min_length=1, max_length=LONGEST)
    dialogue: Annotated[str, Field(max_length=64, pattern=ID)] | None = None
    origin: Annotated[str, Field(max_length=20, pattern=r"^[a-z]+$")] = "program"

    @classmethod
    def like(cls, run: Run, settings: Settings) -> dict[str, Any]:
        return {"question": run.params["question"]}

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        return open_ask(app, self, look)


class TakenUp(Exception):
    """A question that was kept has its run, or has ended."""


def open_ask(app: DeskApp, asked: AskRequest, look: Look | None = None) -> Run:
    """Raises UsageError for a question that is empty or too long, and on a desk that hides what its data are of."""
    entry_id, question = new_id(), cleaned(asked.question)

    def keep(session: Session, run: Run) -> None:
        session.add(
            AskingEntry(
                id=entry_id, dialogue=asked.dialogue or entry_id, person=asked.by, origin=asked.origin,
                account=run.account, question=question, run_id=run.id, state=ASKED,
            )
        )  # fmt: skip

    return _opened(app, entry_id, question, asked.by, keep, look)


def open_kept(app: DeskApp, entry: AskingEntry) -> Run:
    """Open the run of a question that was kept without one. Raises TakenUp where it has one, and as of open_ask."""

    def take(session: Session, run: Run) -> None:
        row = session.get_one(AskingEntry, entry.id, with_for_update=True, populate_existing=True)
        if row.state != ASKED or row.run_id is not None:
            raise TakenUp
        row.run_id, row.account = run.id, run.account
        session.add(row)

    return _opened(app, entry.id, entry.question, entry.person, take, with_budget(None))


def _opened(
    app: DeskApp, entry_id: str, question: str, by: str, keep: Callable[[Session, Run], None], look: Look | None
) -> Run:
    desk = app.desk
    if desk.settings.mask:
        reason = "this desk hides names, dates or levels from its models (DESK_MASK), and an answer would name them"
        raise UsageError(reason, remedy="ask what the look-ups know, or leave DESK_MASK unset")
    params = {"question": question, "by": by, "entry": entry_id}
    own, of_run = own_settings(desk.settings, AskingSettings).tokens, desk.settings.budget_run_tokens
    settings = with_values(desk.settings, {"budget_run_tokens": min(own, of_run) if of_run else own})

    def write(session: Session, run: Run, finish: str) -> list[NewStep]:
        session.flush()
        keep(session, run)
        return [NewStep(ANSWER, finish, role=CLERK, payload={"entry_id": entry_id})]

    return open_run(app, new_run(desk, ASK, params, settings=settings, market=desk.account_market()), write, look)


def answer_question(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        entry = session.get_one(AskingEntry, step.payload["entry_id"])
        before = earlier(session, entry)
    market, settings = desk.market_of(step.run_id), desk.settings_of(step.run_id)
    day = market.clock.session().isoformat()
    run = held.turns.run(CLERK, entry.id, clerk_subject(settings, entry.account, day, entry.question, before))
    grounding = grounding_of(run)
    if grounding is not None:
        desk.telemetry.record_grounding(step, grounding)
    made, notes = proposals_of(desk, entry, run)
    error = run.reason if run.status is ReportStatus.FAILED else None
    result = {"status": run.status, **({"reason": run.reason} if run.reason else {})}
    return Done(result, run.rows, error=error, also=_writer(entry.id, written(run, grounding, notes), made))


def proposals_of(desk: Desk, entry: AskingEntry, run: RoleRun) -> tuple[list[AskingProposal], list[str]]:
    """Return the proposals of an answer, which are written with it, and why others are none."""
    if not isinstance(run.outcome, Completed) or not run.value["proposals"]:
        return [], []
    calls = [(call.answer.tool, call.arguments, call.answer.payload) for call in run.recorded if call.answer.success]
    asker, office = Asker(entry.person, f"the {entry.origin}"), office_of(desk)
    return from_turn(office, run.value["proposals"], calls, entry.question, asker, outside=read_outside(calls))


def grounding_of(run: RoleRun) -> Grounding | None:
    """Return the grounding of an answer in what its tools gave: what the question says is a source of no figure. An id
    is none, and a figure that is quoted with the words around it stands where these stand."""
    if not isinstance(run.outcome, Completed):
        return None
    calls = [(call.answer.tool, call.arguments, call.answer.payload) for call in run.recorded if call.answer.success]
    return grounded(run.value["answer"], calls)


def grounded(text: str, calls: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]) -> Grounding:
    """calls: as of `ground`. A figure is found where the rows' fields have it, also if the texts beside them, of
    many figures, make it one of several."""
    plain = {"answer": _ID.sub(lambda id_: "_" * len(id_[0]), text)}
    found = ground(plain, calls, {})
    if not found.unsupported:
        return found
    fields = [(tool, given, {**answer, "outside": ""}) for tool, given, answer in calls]
    without = {(one.start, one.end) for one in ground(plain, fields, {}).unsupported}
    quotable = " ".join(" ".join(_strings([answer for _, _, answer in calls])).split())
    left = [
        one
        for one in found.unsupported
        if (one.start, one.end) in without and not _is_quoted(text, one.start, one.end, quotable)
    ]
    supported = found.supported + len(found.unsupported) - len(left)
    return found.model_copy(
        update={"unsupported": left, "supported": supported, "share": round(supported / found.figures, 4)}
    )


# Ids of rows, whole or the first characters of them: digits and letters, of which both are there.
_ID = re.compile(r"\b(?=[0-9a-f-]*[0-9])(?=[0-9a-f-]*[a-f])[0-9a-f]{6,32}(?:-[0-9a-f]{1,12})*\b")
_AROUND = 24  # characters on each side of a figure: more than chance has alike


def _is_quoted(text: str, start: int, end: int, quotable: str) -> bool:
    around = " ".join(text[max(start - _AROUND, 0) : end + _AROUND].split())
    return len(around) > _AROUND and around in quotable


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, Sequence):
        for one in value:
            yield from _strings(one)


def written(run: RoleRun, grounding: Grounding | None, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the columns of an entry that its turn fills. notes: why what it proposed is no proposal."""
    ended = {"ended_at": utcnow()}
    if not isinstance(run.outcome, Completed):
        return {**ended, "state": FAILED, "reason": run.reason or str(run.status)}
    value = run.value
    missing = [*value["missing"], *([] if run.has_data else [UNLOOKED]), *notes]
    if run.rogue_note is not None:
        missing.append(run.rogue_note)
    return {
        **ended, "state": ANSWERED, "text": value["answer"], "missing": missing,
        "sources": [way_of(one) for one in value["sources"]],
        "grounding": grounding.model_dump(mode="json") if grounding is not None else None,
    }  # fmt: skip


def _writer(entry_id: str, columns: Mapping[str, Any], made: Sequence[AskingProposal]) -> Callable[[Session], None]:
    """Return the writer of an entry's answer and its proposals, for the transaction that ends the step."""

    def write(session: Session) -> None:
        row = session.get_one(AskingEntry, entry_id)
        row.sqlmodel_update(dict(columns))
        session.add(row)
        for proposal in made:
            proposal.entry = entry_id
            add(session, proposal)
        run = session.get_one(Run, row.run_id)
        if run.schedule is not None:  # nobody waits for it at a terminal
            told = entry_view(session, row).text or f"no answer: {row.reason}"
            facts = {"question": row.question, "text": told}
            note(session, Notice(
                key=f"asking:{row.id}", kind="asking_answered", subject=run.schedule, facts=facts, run_id=run.id,
                occurred_at=utcnow(),
            ))  # fmt: skip

    return write


def turns_of(params: Mapping[str, Any], settings: Settings, held: int = 0) -> dict[str, int]:
    return {CLERK: 1}


WORKFLOWS = (
    Workflow(
        ASK,
        "research",
        (
            StepSpec(
                *(ANSWER, "research", answer_question, "research", "answers"),
                turn=True,
                spine=True,
                after="nothing",
                writes=("asking_entry",),
            ),
        ),
        turns=turns_of,
        request=AskRequest,
        without_orders={},
    ),
)
