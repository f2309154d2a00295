"""A filter of events for readers that want some types alone, some runs alone, or no texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from chordesk.models.events import Domain, Envelope, EventType

# What a model wrote, or a tool answered: more than a third of all bytes.
_BODIES: Mapping[EventType, str] = {EventType.ITEM_COMPLETED: "text", EventType.TOOL_COMPLETED: "answer"}


@dataclass(frozen=True, slots=True)
class EventFilter:
    """kinds: types, or whole domains; runs: ids; without any, all pass. bodies: False leaves out the text of an item
    and the answer of a tool."""

    kinds: Collection[EventType | Domain] = ()
    runs: Collection[str] = ()
    bodies: bool = True

    def passed(self, one: Envelope) -> Envelope | None:
        """Return an event as its reader gets it; None for one that is filtered out."""
        if self.runs and one.run_id not in self.runs:
            return None
        if self.kinds and one.type not in self.kinds and one.domain not in self.kinds:
            return None
        body = _BODIES.get(one.type)
        if self.bodies or body is None or body not in one.payload:
            return one
        return one.model_copy(update={"payload": {name: one.payload[name] for name in one.payload if name != body}})
