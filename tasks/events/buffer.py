"""Buffer of events and lifecycles that are not written yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlmodel import Session

from chordesk.agents.runtime import Lifecycle, Scope
from chordesk.models.events import event_log
from chordesk.models.events.envelope import Envelope
from chordesk.tasks.events import lifecycles
from chordesk.tasks.events.lifecycles import Key, Row

QUEUED_MOST = 20_000  # events, and rows of lifecycles
BATCH = 500  # events of one transaction; more when they are of one step


@dataclass(slots=True)
class EventBuffer:
    """Events by step, in order, and the last row of each lifecycle."""

    events: dict[str, list[Envelope]] = field(default_factory=dict)
    rows: dict[Key, Row] = field(default_factory=dict)
    count: int = 0

    def __bool__(self) -> bool:
        return bool(self.events or self.rows)

    def add(self, scope: Scope, events: Sequence[Envelope], changed: Sequence[Lifecycle] = ()) -> int:
        """Add what there is room for, and return how many events were dropped."""
        kept = events[: max(QUEUED_MOST - self.count, 0)]
        if kept:
            self.events.setdefault(scope.step_id, []).extend(kept)
            self.count += len(kept)
        for one in changed:
            key = lifecycles.key_of(one)
            if key in self.rows or len(self.rows) < QUEUED_MOST:
                self.rows[key] = lifecycles.row_of(one, scope.run_id)
        return len(events) - len(kept)

    def take_step(self, step_id: str) -> list[Envelope]:
        """Remove and return the events of a step."""
        events = self.events.pop(step_id, [])
        self.count -= len(events)
        return events

    def take(self) -> EventBuffer:
        """Remove and return the rows, and the events of the oldest steps."""
        taken = EventBuffer(rows=self.rows)
        self.rows = {}
        while self.events and taken.count < BATCH:
            step_id = next(iter(self.events))
            taken.events[step_id] = self.take_step(step_id)
            taken.count += len(taken.events[step_id])
        return taken

    def put_back(self, taken: EventBuffer) -> None:
        """Put what could not be written before what was added since."""
        for step_id, events in self.events.items():
            taken.events.setdefault(step_id, []).extend(events)
        self.events, self.rows = taken.events, taken.rows | self.rows
        self.count += taken.count

    def singly(self) -> Iterator[EventBuffer]:
        """Yield each event and each row by itself."""
        for step_id, events in self.events.items():
            yield from (EventBuffer({step_id: [one]}, count=1) for one in events)
        yield from (EventBuffer(rows={key: row}) for key, row in self.rows.items())

    def types(self) -> list[str]:
        """Return the types of the events."""
        return [one.type for events in self.events.values() for one in events]

    def write(self, session: Session) -> None:
        """Add all of it to a transaction."""
        for events in self.events.values():
            event_log.append(session, events)
        lifecycles.write(session, self.rows)
