"""An observer of turns, of whichever runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chordesk.agents.runtime import Lifecycle, Scope
from chordesk.models.events import Envelope


class Seen:
    """An observer that keeps what it gets."""

    def __init__(self) -> None:
        self.events: list[Envelope] = []
        self.lifecycles: list[Lifecycle] = []

    def record(self, scope: Scope, events: Sequence[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
        self.events += events
        self.lifecycles += lifecycles

    @property
    def types(self) -> list[str]:
        return [str(one.type) for one in self.events]

    def payloads(self, type_: str) -> list[dict[str, Any]]:
        return [one.payload for one in self.events if one.type == type_]
