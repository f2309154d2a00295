"""The approval router: whom a request of the app-server is taken to.

Nobody, unless its role may ask: it gets the protocol's own word for no, and the turn goes on. Else it waits for a
person, and holds up nothing but its own turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson

from agents.codex.approvals import (
    KINDS,
    NO,
    ApprovalRequest,
    Decision,
    Key,
    Params,
    answer_to,
    declined,
    read_request,
)
from agents.codex.spec import ApprovalKind, Scope

log = logging.getLogger(__name__)

SHOWN_BYTES = 16_000  # of what a person is shown; a longer request is declined, since nobody could have read it


class Asker(Protocol):
    """Takes a request to a person."""

    async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> Decision:
        """Waits for the decision; a refusal when none came within that time. Cancelled when the turn ends first."""


class ApprovalRouter:
    """The requests of one conversation. on_declined is told of what no person is asked, and why."""

    def __init__(
        self,
        scope: Scope,
        allowed: frozenset[ApprovalKind],
        asker: Asker | None,
        on_declined: Callable[[ApprovalRequest, str], None] | None = None,
    ) -> None:
        self._scope, self._allowed, self._asker = scope, allowed, asker
        self._on_declined = on_declined
        self._open: dict[Key, asyncio.Task[Decision]] = {}

    async def route(
        self, method: str, params: Mapping[str, Any], item: Mapping[str, Any] | None, seconds: float
    ) -> Params | None:
        """The answer to a request; None when the method is no approval request. seconds: what the turn has left."""
        if method not in KINDS:
            return declined(method)
        request = read_request(method, params, item)
        why = self._why_not(request)
        if why is not None:
            log.warning("a request of %s (%s) is declined: %s", self._scope.role or "the desk", request.kind, why)
            if self._on_declined is not None:
                self._on_declined(request, why)
            return declined(method)
        asking = self._open.get(request.key)
        if asking is None:
            # The same question asked twice is one question.
            asking = self._open[request.key] = asyncio.create_task(self._ask(request, seconds))
            asking.add_done_callback(lambda _: self._open.pop(request.key, None))
        return answer_to(request, await asyncio.shield(asking))

    def end(self) -> None:
        """The turn is over: nobody is asked any longer."""
        for asking in tuple(self._open.values()):
            asking.cancel()

    def _why_not(self, request: ApprovalRequest) -> str | None:
        """Why no person is asked; None when one is."""
        if request.kind not in self._allowed or self._asker is None:
            return "its role may not ask for this"
        if request.kind == "file_change" and not request.detail["changes"]:
            return "what would be changed is not known"
        if request.kind == "user_input" and any(question["secret"] for question in request.detail["questions"]):
            return "a secret is asked for, and answers are stored"
        if len(orjson.dumps(request.detail)) > SHOWN_BYTES:
            return "it is too long for a person to read"
        return None

    async def _ask(self, request: ApprovalRequest, seconds: float) -> Decision:
        assert self._asker is not None
        try:
            return await self._asker.ask(request, self._scope, seconds)
        except Exception:
            log.exception("nobody could be asked for %s; it is declined", request.kind)
            return NO
