"""Whom the runtime tells what happens in its conversations, as it happens."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple, Protocol

from agents.codex.spec import Scope
from models.events import Envelope
from models.lifecycle import ConversationRef, ItemLifecycle, TurnLifecycle


class ConversationSeen(NamedTuple):
    """A conversation as it is now. id: the same from its opening to its close; a thread may have many, one after the
    other. ref.active_turn_id: the turn that runs, if one does. reason: why it is this thread, such as `resumed`.
    kept: the thread outlives the conversation. closed_at: null while it is open.
    """

    id: str
    ref: ConversationRef
    scope: Scope
    reason: str
    kept: bool
    worker: str
    opened_at: dt.datetime
    closed_at: dt.datetime | None = None


class Observer(Protocol):
    """Told on the event loop's thread, in the order in which things happen. It must neither block nor raise.

    Each lifecycle is told whole at every change of it, so that the last word on an id is all there is to know.
    """

    def later(self, tell: Callable[[Observer], None]) -> None:
        """Calls `tell` with whom it tells: at once, or in its place among all that is told later, from a thread that
        holds up no turn."""

    def events(self, events: list[Envelope]) -> None:
        """Envelopes without a sequence; those of type ITEM_DELTA never get one."""

    def conversation(self, conversation: ConversationSeen) -> None:
        """One was opened, began or ended a turn, or was closed."""

    def turn(self, turn: TurnLifecycle, run_id: str) -> None:
        """A turn began or ended."""

    def item(self, item: ItemLifecycle, run_id: str) -> None:
        """An item began or ended; a short one may only be told of when it ends."""
