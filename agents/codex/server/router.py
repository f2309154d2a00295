"""Routing of the app-server's approval requests.

A request is declined at once, and its turn continues, unless its role may make it: then it waits for a person, and
blocks its own turn alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import structlog

from chordesk.agents.codex.server.approvals import KINDS, Params, answer_to, declined, read_request
from chordesk.agents.runtime import NOT_APPROVED, ApprovalDecision, ApprovalKind, ApprovalRequest, Asker, Scope

log = structlog.get_logger(__name__)

SHOWN_BYTES = 16_000  # of what a person is shown; a longer request is declined, since no person could read it


class ApprovalRouter:
    """Router of one conversation's requests. on_declined: called with a request that is declined at once, and the
    reason."""

    def __init__(
        self,
        scope: Scope,
        allowed: frozenset[ApprovalKind],
        asker: Asker | None,
        on_declined: Callable[[ApprovalRequest, str], None],
    ) -> None:
        self._scope, self._allowed, self._asker = scope, allowed, asker
        self._on_declined = on_declined
        self._open: dict[Any, asyncio.Task[ApprovalDecision]] = {}

    async def route(
        self, method: str, params: Mapping[str, Any], item: Mapping[str, Any] | None, seconds: float
    ) -> Params | None:
        """Return the answer to a request; None when the method is no approval request. seconds: time left of the
        turn."""
        if method not in KINDS:
            return declined(method)
        request = read_request(method, params, item)
        if (why := self._why_not(request)) is not None:
            log.warning("request.declined", role=self._scope.role, kind=request.kind, why=why)
            self._on_declined(request, why)
            return declined(method)
        if (asking := self._open.get(request.key)) is None:
            # The same request sent twice is one request.
            asking = self._open[request.key] = asyncio.create_task(self._ask(request, seconds))
            asking.add_done_callback(lambda _: self._open.pop(request.key, None))
        return answer_to(request, await asyncio.shield(asking))

    def end(self) -> None:
        """Cancel the open requests of a turn that is over."""
        for asking in tuple(self._open.values()):
            asking.cancel()

    def _why_not(self, request: ApprovalRequest) -> str | None:
        """Return the reason to decline a request at once; None when a person decides."""
        if request.kind not in self._allowed or self._asker is None:
            return "its role may not ask for this"
        if request.kind == "file_change" and not request.detail["changes"]:
            return "what would be changed is not known"
        if request.kind == "user_input" and any(question["secret"] for question in request.detail["questions"]):
            return "a secret is asked for, and answers are stored"
        if len(orjson.dumps(request.detail)) > SHOWN_BYTES:
            return "it is too long for a person to read"
        return None

    async def _ask(self, request: ApprovalRequest, seconds: float) -> ApprovalDecision:
        assert self._asker is not None
        try:
            return await self._asker.ask(request, self._scope, seconds)
        except Exception:
            log.exception("request.not_asked", kind=request.kind)
            return NOT_APPROVED
