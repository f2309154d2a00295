"""Writes down what runtimes tell: events, and the lifecycles of conversations, turns and items.

It is told on the event loop and writes in a thread of its own, many at once: a row costs little, a transaction much.
A step that ends takes its events and those of its threads into its own transaction, so that they come before its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import structlog
from sqlmodel import Session

from agents.codex.observer import ConversationSeen, Observer
from models import event_log
from models.event_batch import batches
from models.events import Envelope, EventType
from models.lifecycle import ItemLifecycle, TurnLifecycle
from models.store import Store
from tasks.events.heard import QUEUED_MOST, Heard
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


class Recorder:
    """The observer of a process's runtimes. Threads may share it; its own thread begins with the first word.

    Events wait here without a sequence: one that is left out because the database is away for too long leaves no gap.
    deltas: who streams what is never stored; None leaves it out.
    """

    def __init__(self, store: Store, deltas: Publisher | None = None) -> None:
        self._store, self._deltas = store, deltas
        self._inbox: Inbox[Callable[[Observer], None]] = Inbox("recorder", self._run)
        self._held = threading.Lock()  # for what is below, down to the next empty line
        self._heard = Heard()
        self._lives_at = 0.0

        # Held while events are on their way into the database: later ones of their threads wait for them.
        self._writing = threading.Lock()
        self._away = False

    @property
    def dropped(self) -> int:
        """How many events were left out."""
        return self._heard.dropped

    def later(self, tell: Callable[[Observer], None], events: int = 1) -> None:
        """events: how many are left out when there is no room."""
        if len(self._inbox) < QUEUED_MOST:
            self._inbox.put(tell)
        else:
            self._leave_out(events)

    def events(self, events: list[Envelope]) -> None:
        """Deltas among them are of one run."""
        kept = [one for one in events if one.type is not EventType.ITEM_DELTA]
        if self._deltas is not None and len(kept) < len(events):
            deltas = [one for one in events if one.type is EventType.ITEM_DELTA]
            self._deltas.publish(list(batches(deltas[0].run_id, None, deltas)))
        self.later(lambda heard: heard.events(kept), len(kept))

    def conversation(self, conversation: ConversationSeen) -> None:
        self.later(lambda heard: heard.conversation(conversation), 0)

    def turn(self, turn: TurnLifecycle, run_id: str) -> None:
        self.later(lambda heard: heard.turn(turn, run_id), 0)

    def item(self, item: ItemLifecycle, run_id: str) -> None:
        self.later(lambda heard: heard.item(item, run_id), 0)

    @contextmanager
    def taken(self, step_id: str) -> Iterator[list[Envelope]]:
        """What is still to be written of a step and its threads, for the transaction that ends it; an error gives it
        back."""
        with self._writing, self._held:
            self._hear()
            mine = self._heard.take_of(step_id)
        try:
            yield mine
        except BaseException:
            with self._held:
                self._heard.give_back(mine)
            self._inbox.wake()
            raise

    def close(self, seconds: float = 5.0) -> None:
        """Writes what is left, for so long at the most."""
        self._inbox.close(seconds)

    def _leave_out(self, events: int) -> None:
        with self._held:
            self._heard.dropped += events

    def _hear(self) -> None:
        """What was told meanwhile is put in words; for who holds the lock."""
        for tell in self._inbox.take(len(self._inbox)):
            try:
                tell(self._heard)
            except Exception:
                # It was told by another thread, which has gone on; nothing else that waits is to be lost.
                log.exception("events.not_told")

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
                left = self._lives_at - time.monotonic() if self._heard.has_lives else None
                if self._heard.has_events or closing or (left is not None and left <= 0):
                    return self._heard.has_events or self._heard.has_lives
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
                self._leave_out(len(some))
                log.error("events.refused", types=[one.type for one in some], error=_line(error))
        return True

    def _batch(self) -> tuple[list[Envelope], Lifecycles]:
        with self._held:
            self._hear()
            return self._heard.take_events(BATCH), self._due()

    def _due(self) -> Lifecycles:
        """The lifecycles, when it is their time."""
        now = time.monotonic()
        if now < self._lives_at and not self._inbox.closing.is_set():
            return Lifecycles()
        self._lives_at = now + LIVES_SECONDS
        return self._heard.take_lives()

    def _give_back(self, events: list[Envelope], lives: Lifecycles, error: Exception) -> None:
        with self._held:
            self._heard.give_back(events, lives)
        if not self._away:
            self._away = True
            log.warning("events.not_recorded", error=_line(error))


def _add(session: Session, events: list[Envelope], lives: Lifecycles) -> None:
    event_log.append(session, events)
    lives.write(session)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
