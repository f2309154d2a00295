"""Puts events in order: each run's by its sequence, each once. Knows no Redis and no database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from models.events import Envelope

# Held until what is missing before them is here. More of one run than this are read again from the database.
HELD_MOST = 256


class Order:
    """positions: the last sequence that was let through, by run; a run that is not named begins at 0."""

    def __init__(self, positions: Mapping[str, int]) -> None:
        self.positions = dict(positions)
        self._held: dict[str, dict[int, Envelope]] = defaultdict(dict)
        self._seen: dict[str, int] = {}

    def take(self, events: Iterable[Envelope]) -> list[Envelope]:
        """Those of these events, and of those held before, that go on from what was let through. A delta has no place
        and is let through at once."""
        ready: list[Envelope] = []
        for one in events:
            if one.sequence is None:
                ready.append(one)
                continue
            position = self.positions.get(one.run_id, 0)
            if one.sequence == position + 1:
                ready.append(one)
                self.positions[one.run_id] = one.sequence
                ready += self._freed(one.run_id)
            elif one.sequence > position:
                self._hold(one, one.sequence)
        return ready

    def gaps(self) -> dict[str, int]:
        """Runs of which something is missing, and the last sequence that is known of each."""
        return dict(self._seen)

    def skip(self, run_id: str, upto: int) -> None:
        """Nothing up to this sequence can be had any more."""
        if upto > self.positions.get(run_id, 0):
            self.positions[run_id] = upto
            self._settle(run_id)

    def _hold(self, one: Envelope, sequence: int) -> None:
        held = self._held[one.run_id]
        if len(held) < HELD_MOST:
            held[sequence] = one
        self._seen[one.run_id] = max(sequence, self._seen.get(one.run_id, 0))

    def _freed(self, run_id: str) -> list[Envelope]:
        freed: list[Envelope] = []
        held = self._held.get(run_id)
        while held and (following := held.pop(self.positions[run_id] + 1, None)) is not None:
            freed.append(following)
            self.positions[run_id] += 1
        self._settle(run_id)
        return freed

    def _settle(self, run_id: str) -> None:
        """Forget what is behind by now."""
        position = self.positions[run_id]
        if self._seen.get(run_id, 0) > position:
            return
        self._seen.pop(run_id, None)
        self._held.pop(run_id, None)
