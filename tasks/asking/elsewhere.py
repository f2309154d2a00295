"""Questions that a person asks on a phone and that a model answers.

The question is a row, written in the transaction in which the messenger notes that it is asked. A worker's pass opens
its run, once, as it names the run in that row in the transaction that opens it; the messenger tells the answer in the
transaction in which it notes that it is told. So what dies between any two steps asks and tells nothing twice.
"""

from __future__ import annotations

import datetime as dt

import structlog
from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.asking.proposals import AskingProposal
from chordesk.models.asking.settings import AskingSettings
from chordesk.models.asking.tables import AskingEntry
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import own_settings
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.text import SHORT_ID, one_line
from chordesk.tasks.asking.dialogues import ANSWERED, ASKED, FAILED, NOT_FOUND, EntryView, entry_view, going_on
from chordesk.tasks.asking.proposing import OPEN, proposed
from chordesk.tasks.asking.questions import cleaned
from chordesk.tasks.questions import AskedQuestion, ModelAnswer
from chordesk.tasks.worker.messages import DeskApp

log = structlog.get_logger(__name__)
HOUR = dt.timedelta(hours=1)
LATEST = dt.timedelta(minutes=10)  # in which a worker opens the run, else the person is told that none did
MOST_OPENED = 5  # of one pass
MOST_SOURCES = 6


class Phones:
    """As `Asks` of `tasks/questions.py`."""

    def by_model(self, settings: Settings) -> bool:
        from chordesk.agents.role_models import role_models
        from chordesk.tasks.engine.budgets import RULES

        return role_models(settings)["clerk"].provider(settings) != RULES

    def ask(self, session: Session, settings: Settings, asked: AskedQuestion) -> str:
        question = cleaned(asked.text)
        _require_few(session, settings, asked)
        id_ = new_id()
        before = going_on(session, asked.by, asked.origin, settings.account, asked.since)
        session.add(
            AskingEntry(
                id=id_, dialogue=before or id_, person=asked.by, origin=asked.origin, account=settings.account,
                question=question, state=ASKED,
            )
        )  # fmt: skip
        return id_

    def ended(self, session: Session, settings: Settings, id_: str) -> bool:
        entry = session.get(AskingEntry, id_)
        return entry is None or _is_left(entry) or entry_view(session, entry).state != ASKED

    def answered(self, session: Session, settings: Settings, id_: str) -> ModelAnswer:
        entry = session.get(AskingEntry, id_, with_for_update=True, populate_existing=True)
        if entry is None:
            return ModelAnswer("the question is not on record any more")
        if _is_left(entry):
            _fail(entry, "no worker has taken it up in ten minutes: see that the desk runs, and ask again")
            session.add(entry)
        rows = select(AskingProposal).where(AskingProposal.entry == id_, AskingProposal.state == OPEN)
        found = [proposed(row, settings) for row in session.exec(rows.order_by(col(AskingProposal.id))).all()]
        return ModelAnswer(told(entry_view(session, entry)), [one for one in found if one.open])


def told(found: EntryView) -> str:
    """Return an answer as lines of plain text."""
    if found.state != ANSWERED:
        why = one_line(found.reason, 400) if found.reason else f"the question is {found.state}"
        return f"no answer to {one_line(found.question, 80)!r}: {why}"
    marked = found.text.replace(NOT_FOUND, "(not found)")  # no messenger gets brackets, which may be a link's
    lines = [marked, *(f"missing: {one}" for one in found.missing)]
    if found.figures:
        lines.append(f"{found.found} of {found.figures} figures found in what was looked up")
    if found.sources:
        named = ", ".join(f"{one['kind']} {one['id'][:SHORT_ID]}" for one in found.sources[:MOST_SOURCES])
        lines.append(f"from {named}")
    return "\n".join(lines)


def _require_few(session: Session, settings: Settings, asked: AskedQuestion) -> None:
    most = own_settings(settings, AskingSettings).hourly
    of_models = (
        AskingEntry.person == asked.by, AskingEntry.origin == asked.origin, AskingEntry.intent == "",
        col(AskingEntry.created_at) > utcnow() - HOUR,
    )  # fmt: skip
    count = session.exec(select(func.count()).select_from(AskingEntry).where(*of_models)).one()
    if count >= most:
        raise UsageError(
            f"{asked.by} has asked a model {count} questions within an hour, of at most {most}",
            remedy="wait, or ask what the rows answer; DESK_ASKING_HOURLY sets it",
        )


def _is_left(entry: AskingEntry) -> bool:
    return entry.state == ASKED and entry.run_id is None and utcnow() - entry.created_at > LATEST


def _fail(entry: AskingEntry, why: str) -> None:
    entry.state, entry.reason, entry.ended_at = FAILED, why, utcnow()


def open_asked(app: DeskApp) -> dict[str, int]:
    """Open the run of each question that has none."""
    from chordesk.tasks.asking.clerk_runs import TakenUp, open_kept

    store, opened = app.desk.store, 0
    with store.read() as session:
        waits = (AskingEntry.state == ASKED, col(AskingEntry.run_id).is_(None))
        rows = session.exec(select(AskingEntry).where(*waits).order_by(col(AskingEntry.id)).limit(MOST_OPENED)).all()
    for row in rows:
        if _is_left(row):  # the person is told so
            continue
        try:
            open_kept(app, row)
            opened += 1
        except TakenUp:
            continue
        except DeskError as error:
            log.warning("asking.not_opened", entry=row.id, error=str(error))
            if not error.retryable:
                _ended(app, row.id, f"{error.args[0]}{f'; {error.remedy}' if error.remedy else ''}")
    return {"opened": opened}


def _ended(app: DeskApp, id_: str, why: str) -> None:
    with app.desk.store.session() as session:
        entry = session.get_one(AskingEntry, id_, with_for_update=True, populate_existing=True)
        if entry.state == ASKED and entry.run_id is None:
            _fail(entry, why)
            session.add(entry)
