"""The asker of a runtime: records a model's request, waits for a person's answer, and expires unanswered requests."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError
from sqlmodel import select

from chordesk.agents.runtime import NOT_APPROVED, ApprovalDecision, ApprovalRequest, Scope
from chordesk.models.database.persistence import is_lost
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.events import RuntimeApproval
from chordesk.tasks.approvals import requests

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.5  # between two reads of the row that a person answers in


class ApprovalAsker:
    """The asker of a worker's runtime; for its loop alone. The database is read off the loop."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._most_seconds = settings.approval_minutes * 60
        self._closing: set[asyncio.Task[Any]] = set()

    async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> ApprovalDecision:
        """Wait for a person's answer for as long as the settings and the turn allow; without one, decline."""
        seconds = max(0.0, min(seconds, self._most_seconds))
        id_ = new_id()
        until = asyncio.get_running_loop().time() + seconds
        adding = asyncio.ensure_future(asyncio.to_thread(self._add, id_, request, scope, seconds))
        try:
            await asyncio.shield(adding)
            log.info("approval.asked", request=id_, role=scope.role, kind=request.kind, seconds=round(seconds))
            return await self._answer(id_, until)
        except asyncio.CancelledError:
            # The turn is over: the request must be closed, once its insert has ended.
            closing = asyncio.create_task(self._give_up(id_, adding))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            raise

    async def _answer(self, id_: str, until: float) -> ApprovalDecision:
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0:
            await asyncio.sleep(min(left, POLL_SECONDS))
            try:
                row = await asyncio.to_thread(self._read, id_)
            except DBAPIError as error:
                if not is_lost(error):
                    raise
                log.warning("approval.unread", request=id_, error=str(error.orig))
                continue
            if row.state != ApprovalState.PENDING:
                return _decision(row)
        return _decision(await asyncio.to_thread(self._expire, id_))

    async def _give_up(self, id_: str, adding: asyncio.Future[None]) -> None:
        try:
            await adding
            await asyncio.to_thread(self._expire, id_)
        except DBAPIError as error:
            # The sweep closes it when its time is over.
            log.warning("approval.unclosed", request=id_, error=str(error.orig))

    def _add(self, id_: str, request: ApprovalRequest, scope: Scope, seconds: float) -> None:
        with self._store.session() as session:
            requests.add(session, id_, request, scope, seconds)

    def _read(self, id_: str) -> RuntimeApproval:
        with self._store.read() as session:
            return session.exec(select(RuntimeApproval).where(RuntimeApproval.id == id_)).one()

    def _expire(self, id_: str) -> RuntimeApproval | None:
        with self._store.session() as session:
            return requests.expire(session, id_)


def _decision(row: RuntimeApproval | None) -> ApprovalDecision:
    if row is None or row.state != ApprovalState.APPROVED:
        return NOT_APPROVED
    return ApprovalDecision(approved=True, answers=row.answers)
