"""What runtimes told and is not written yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from agents.codex.observer import ConversationSeen, Observer
from models.events import Envelope
from models.lifecycle import ItemLifecycle, TurnLifecycle
from tasks.events.lifecycles import Lifecycles

QUEUED_MOST = 20_000
STEPS_MOST = 10_000


class Heard:
    """An observer, for one thread at a time. dropped: events that were left out, because more than it holds waited."""

    def __init__(self) -> None:
        self._events: list[Envelope] = []
        self._lives = Lifecycles()
        self._threads_of: dict[str, set[str]] = defaultdict(set)
        self.dropped = 0

    def later(self, tell: Callable[[Observer], None]) -> None:
        tell(self)

    def events(self, events: list[Envelope]) -> None:
        room = max(QUEUED_MOST - len(self._events), 0)  # what was given back may be more
        if len(events) > room:
            self.dropped += len(events) - room
            events = events[:room]
        self._events += events

    def conversation(self, conversation: ConversationSeen) -> None:
        self._lives.conversation(conversation)
        self._threads_of[conversation.scope.step_id].add(conversation.ref.thread_id)
        if len(self._threads_of) > STEPS_MOST:  # of steps whose end was written without them
            del self._threads_of[next(iter(self._threads_of))]

    def turn(self, turn: TurnLifecycle, run_id: str) -> None:
        self._lives.turn(turn, run_id)

    def item(self, item: ItemLifecycle, run_id: str) -> None:
        if len(self._lives) < QUEUED_MOST:
            self._lives.item(item, run_id)

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    @property
    def has_lives(self) -> bool:
        return bool(self._lives)

    def take_events(self, most: int) -> list[Envelope]:
        """The oldest of them."""
        events, self._events = self._events[:most], self._events[most:]
        return events

    def take_lives(self) -> Lifecycles:
        lives, self._lives = self._lives, Lifecycles()
        return lives

    def take_of(self, step_id: str) -> list[Envelope]:
        """Those of a step and of the threads that it has talked in."""
        threads = self._threads_of.pop(step_id, set())
        mine: list[Envelope] = []
        rest: list[Envelope] = []
        for one in self._events:
            its = one.thread_id in threads or one.payload.get("step") == step_id
            (mine if its else rest).append(one)
        self._events = rest
        return mine

    def give_back(self, events: Sequence[Envelope], lives: Lifecycles | None = None) -> None:
        """What was taken and could not be written, before all that came since."""
        self._events[:0] = events
        if lives is not None:
            self._lives.older(lives)
