"""The autoscaler of the rehearsal: a thread that asks the database how much is due, decides, and scales the crew."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.database.store import Store
from chordesk.tasks.engine.step_queries import demand
from tests.fleet.crew import RESEARCH, Crew
from tests.fleet.scaler import Decision, Scaler

TEND_SECONDS = 0.25


@dataclass(slots=True)
class Controller:
    """decisions: each look's, those that change nothing too. clock: seconds since the rehearsal began.
    most_ready: workers at once. error: what ended the thread."""

    crew: Crew
    store: Store
    scaler: Scaler
    clock: Callable[[], float]
    decisions: list[Decision] = field(default_factory=list)
    most_ready: int = 0
    error: BaseException | None = None
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Controller:
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join(30)

    def pause(self, workers: int | None) -> None:
        """Hold this number of workers from the next look on, whatever is due; None goes on with the rule."""
        self.scaler.paused = workers

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self.error is not None:
            raise self.error

    def changes(self) -> list[Decision]:
        return [decision for decision in self.decisions if decision.changes]

    def _run(self) -> None:
        looked = 0.0
        try:
            while not self._end.wait(TEND_SECONDS):
                self.crew.tend()
                self.most_ready = max(self.most_ready, len(self.crew.ready(RESEARCH)))
                if time.monotonic() - looked >= self.scaler.rule.poll:
                    looked = time.monotonic()
                    self._look()
        except BaseException as error:
            self.error = error

    def _look(self) -> None:
        decision = self.scaler.decide(self.clock(), self._steps(), self.crew.wanted)
        self.decisions.append(decision)
        if decision.changes:
            self.crew.log(f"scaled from {decision.before} to {decision.workers}: {decision.reason}")
            self.crew.scale(decision.workers)

    def _steps(self) -> int | None:
        """Return how much is due or in work; None when the database does not answer."""
        with suppress(SQLAlchemyError), self.store.read() as session:
            return demand(session)
        return None
