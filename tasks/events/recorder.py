"""Writes down what runtimes tell: events, and the lifecycles of conversations, turns and items.

It is told on the event loop and writes in a thread of its own, many at once: a row costs little, a transaction much.
A step that ends takes its events and those of its threads into its own transaction, so that they come before its end.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import structlog
from sqlmodel import Session

from agents.codex.observer import ConversationSeen
from models import event_log
from models.events import Envelope, EventType
from models.lifecycle import ItemLifecycle, TurnLifecycle
from models.store import Store
from tasks.events.inbox import Inbox
from tasks.events.lifecycles import Lifecycles
from tasks.events.publisher import Publisher
from tasks.persistence import is_lost

log = structlog.get_logger(__name__)

PAUSE_SECONDS = 0.2  # between two transactions; what comes after a longer rest is written at once
# Lifecycles are not followed live, and most have changed again within this time.
LIVES_SECONDS = 2.0
AWAY_SECONDS = 1.0
BATCH = 500
QUEUED_MOST = 20_000
STEPS_MOST = 10_000


class Recorder:
    """The observer of a process's runtimes. Threads may share it; its own thread begins with the first word.

    Events wait here without a sequence: one that is left out because the database is away for too long leaves no gap.
    deltas: who streams what is never stored; None leaves it out.
    """

    def __init__(self, store: Store, deltas: Publisher | None = None) -> None:
        self._store, self._deltas = store, deltas
        self._inbox: Inbox[Callable[[], None]] = Inbox("recorder", self._run)
        self._held = threading.Lock()  # for what is below, down to the next empty line
        self._events: list[Envelope] = []
        self._lives = Lifecycles()
        self._lives_at = 0.0
        self._threads_of: dict[str, set[str]] = defaultdict(set)
        self.dropped = 0

        # Held while events are on their way into the database: later ones of their threads wait for them.
        self._writing = threading.Lock()
        self._away = False

    def events(self, events: list[Envelope]) -> None:
        kept = [one for one in events if one.type is not EventType.ITEM_DELTA]
        if self._deltas is not None and len(kept) < len(events):
            self._deltas.publish([one for one in events if one.type is EventType.ITEM_DELTA])
        self._tell(lambda: self._queue(kept), len(kept))

    def conversation(self, conversation: ConversationSeen) -> None:
        self._tell(lambda: self._begun(conversation))

    def turn(self, turn: TurnLifecycle, run_id: str) -> None:
        self._tell(lambda: self._lives.turn(turn, run_id))

    def item(self, item: ItemLifecycle, run_id: str) -> None:
        self._tell(lambda: self._item(item, run_id))

    @contextmanager
    def taken(self, step_id: str) -> Iterator[list[Envelope]]:
        """What is still to be written of a step and its threads, for the transaction that ends it; an error gives it
        back."""
        with self._writing, self._held:
            self._hear()
            threads = self._threads_of.pop(step_id, set())
            mine: list[Envelope] = []
            rest: list[Envelope] = []
            for one in self._events:
                its = one.thread_id in threads or one.payload.get("step") == step_id
                (mine if its else rest).append(one)
            self._events = rest
        try:
            yield mine
        except BaseException:
            with self._held:
                self._events[:0] = mine
            self._inbox.wake()
            raise

    def close(self, seconds: float = 5.0) -> None:
        """Writes what is left, for so long at the most."""
        self._inbox.close(seconds)

    def _tell(self, what: Callable[[], None], events: int = 0) -> None:
        if len(self._inbox) < QUEUED_MOST:
            self._inbox.put(what)
        else:
            with self._held:
                self.dropped += events

    def _hear(self) -> None:
        """Does what was told meanwhile; for who holds the lock."""
        for what in self._inbox.take(len(self._inbox)):
            what()

    def _queue(self, events: list[Envelope]) -> None:
        room = max(QUEUED_MOST - len(self._events), 0)
        self._events += events[:room]
        self.dropped += len(events[room:])

    def _begun(self, conversation: ConversationSeen) -> None:
        self._lives.conversation(conversation)
        self._threads_of[conversation.scope.step_id].add(conversation.ref.thread_id)
        if len(self._threads_of) > STEPS_MOST:  # of steps whose end was written without them
            del self._threads_of[next(iter(self._threads_of))]

    def _item(self, item: ItemLifecycle, run_id: str) -> None:
        if len(self._lives) < QUEUED_MOST:
            self._lives.item(item, run_id)

    def _run(self) -> None:
        closing = self._inbox.closing
        while self._wait():
            began = time.monotonic()
            written = self._write()
            if closing.is_set() and not written:
                return
            pause = PAUSE_SECONDS if written else AWAY_SECONDS
            closing.wait(max(began + pause - time.monotonic(), 0.0))

    def _wait(self) -> bool:
        """Until there is something to write; False when there never will be."""
        while True:
            self._inbox.expect()
            closing = self._inbox.closing.is_set()  # before looking: what is told before the close is written
            with self._held:
                self._hear()
                left = self._lives_at - time.monotonic() if self._lives else None
                if self._events or closing or (left is not None and left <= 0):
                    return bool(self._events or self._lives)
            self._inbox.wait(left)

    def _write(self) -> bool:
        """One transaction. False when the database is away: all of it waits for the next one."""
        events: list[Envelope] = []
        lives = Lifecycles()
        with ExitStack() as taking:
            try:
                with self._store.session() as session:
                    session.connection()  # its turn to write first, then the batch: no step that ends waits for both
                    taking.enter_context(self._writing)
                    events, lives = self._batch()
                    _add(session, events, lives)
            except Exception as error:
                if is_lost(error):
                    self._give_back(events, lives, error)
                    return False
                log.warning("events.batch_refused", error=_line(error))
                if not self._write_singly(events, lives):
                    return False
        if self._away:
            self._away = False
            log.info("events.recorded_again", left_out=self.dropped)
        return True

    def _write_singly(self, events: list[Envelope], lives: Lifecycles) -> bool:
        """What was refused together, so that nothing waits for the one row that cannot be written."""
        parts = [*(([one], Lifecycles()) for one in events), *(([], one) for one in lives.singly())]
        for number, (some, row) in enumerate(parts):
            try:
                with self._store.session() as session:
                    _add(session, some, row)
            except Exception as error:
                if is_lost(error):
                    self._give_back(events[number:], lives, error)
                    return False
                with self._held:
                    self.dropped += len(some)
                log.error("events.refused", types=[one.type for one in some], error=_line(error))
        return True

    def _batch(self) -> tuple[list[Envelope], Lifecycles]:
        with self._held:
            self._hear()
            events, self._events = self._events[:BATCH], self._events[BATCH:]
            return events, self._due()

    def _due(self) -> Lifecycles:
        """The lifecycles, when it is their time."""
        now = time.monotonic()
        if now < self._lives_at and not self._inbox.closing.is_set():
            return Lifecycles()
        self._lives_at = now + LIVES_SECONDS
        lives, self._lives = self._lives, Lifecycles()
        return lives

    def _give_back(self, events: list[Envelope], lives: Lifecycles, error: Exception) -> None:
        with self._held:
            self._events[:0] = events
            self._lives.older(lives)
        if not self._away:
            self._away = True
            log.warning("events.not_recorded", error=_line(error))


def _add(session: Session, events: list[Envelope], lives: Lifecycles) -> None:
    event_log.append(session, events)
    lives.write(session)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
