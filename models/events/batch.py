"""Batches of a run's consecutive events as they are stored and streamed: one JSON text each, serialized once.

Sequences are null in the text; they follow from the first event's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from chordesk.models.events.envelope import Envelope

MOST = 20  # events in a batch


@dataclass(frozen=True, slots=True)
class Batch:
    """first: the sequence of the first event; None for deltas, which have none. events: without sequences, see
    `placed`. text: a JSON list of the events."""

    run_id: str
    first: int | None
    events: Sequence[Envelope]
    text: str

    def placed(self) -> Iterator[Envelope]:
        """Yield the events with their sequences."""
        for place, one in enumerate(self.events):
            yield one if self.first is None else one.at(self.first + place)


def batches(run_id: str, first: int | None, events: Sequence[Envelope]) -> Iterator[Batch]:
    """Yield events of one run in batches of MOST. Raises TypeError for a payload that is not JSON."""
    for start in range(0, len(events), MOST):
        some = events[start : start + MOST]
        text = orjson.dumps([one.__dict__ for one in some]).decode()
        yield Batch(run_id, None if first is None else first + start, some, text)


def joined(batches: Iterable[Batch]) -> list[Batch]:
    """Return the same events of one run in fewer batches, by joining those that follow each other."""
    found: list[Batch] = []
    for one in batches:
        last = found[-1] if found else None
        if last is not None and _follows(last, one):
            found[-1] = Batch(one.run_id, last.first, [*last.events, *one.events], f"{last.text[:-1]},{one.text[1:]}")
        else:
            found.append(one)
    return found


def rows_of(text: str | bytes, first: int | None) -> Iterator[Any]:
    """Yield the rows of a batch's text, to be validated as envelopes. Raises ValueError for text that is no JSON
    list."""
    rows = orjson.loads(text)
    if not isinstance(rows, list):
        raise ValueError(f"{type(rows).__name__} is no list of events")
    for place, row in enumerate(rows):
        yield {**row, "sequence": first + place} if first is not None and isinstance(row, dict) else row


def _follows(last: Batch, one: Batch) -> bool:
    follows = one.first is None if last.first is None else one.first == last.first + len(last.events)
    return follows and len(last.events) + len(one.events) <= MOST
