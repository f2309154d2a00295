"""Tells an observer of one conversation, without holding up the event loop: what happens is kept with its time, and is
put in words where that disturbs nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agents.codex.approvals import ApprovalRequest
from agents.codex.observer import Observer
from agents.codex.spec import ConversationSpec, Opened
from agents.codex.story import Story
from agents.codex.translator import LIVE_ONLY
from models.columns import utcnow
from models.research import Failure


class Reporter:
    """One conversation's voice. Whatever began is ended: a turn by `over` at the latest, an item by its turn."""

    def __init__(self, observer: Observer, spec: ConversationSpec, opened: Opened, worker: str) -> None:
        self._observer = observer
        self._story = Story(spec, opened, worker)

    def opened(self) -> None:
        """The thread is ready for turns."""
        self._tell(self._story.opened)

    def closed(self) -> None:
        """The conversation is over and its thread let go of."""
        self._tell(self._story.closed)

    def heard(self, method: str, params: Mapping[str, Any], said: str | None = None) -> None:
        """A notification of the turn that runs, or a call of a tool. said: the turn's answer so far."""
        if method in LIVE_ONLY:  # late, it would be worth nothing
            self._story.heard(self._observer, utcnow(), method, params, said)
        else:
            self._tell(self._story.heard, method, params, said)

    def declined(self, request: ApprovalRequest, why: str) -> None:
        """Something was asked for that no person is asked for."""
        self._tell(self._story.declined, request, why)

    def over(self, status: str, why: Failure | None) -> None:
        """The desk has done with a turn, by the desk's word for its end. One that the app-server did not end is told
        of as ended here."""
        self._tell(self._story.over, status, why)

    def _tell(self, tell: Callable[..., None], *what: Any) -> None:
        at = utcnow()
        self._observer.later(lambda observer: tell(observer, at, *what))
