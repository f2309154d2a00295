"""Backtests played in this process: no queue and no app-server, many steps to a transaction, the same handlers.

Steps that become ready wait in memory, where a worker would have a message. What is done in about half a second is one
transaction, which ends between two steps. So whoever looks from outside, and whatever ends this process, finds the walk
between two steps, as if messages had been lost: a worker's sweep goes on with it, or another player does.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache

import structlog
from sqlmodel import col, select

from chordesk.models import features
from chordesk.models.database.store import is_lost
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import research_account
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.bootstrap import RUNS_KEPT, Desk
from chordesk.tasks.engine import kinds, leases, policy, step_queries
from chordesk.tasks.engine.owners import PLAYER
from chordesk.tasks.engine.steps import ReadyStep, ready_of
from chordesk.tasks.worker.maintenance import sweep
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.worker.work import handle, work

log = structlog.get_logger(__name__)

TOGETHER_SECONDS = 0.5  # other writers of an SQLite database wait for so long, and a step
PAUSE_SECONDS = 0.003  # after it: they look each millisecond
POLL_SECONDS = 0.2
BUSY_SWEEP_SECONDS = 30.0  # while steps wait here, a sweep only finds deadlines
AWAY_SECONDS = 1.0


class Player:
    """Plays the steps of backtests. app: to open them with; it needs no broker."""

    def __init__(self, settings: Settings) -> None:
        self.app = DeskApp(PLAYER, set_as_current=False)
        self.app.desk = self._desk = Desk(settings, PLAYER, plays=True)
        self.app.plays = self._take
        self._accounts = set[str]()
        self._account_of = lru_cache(RUNS_KEPT)(self._read_account)
        self._waiting = deque[ReadyStep]()
        self._swept = time.monotonic()
        self._desk.shortages.start()

    def add(self, walk: Run) -> None:
        """Play this run too, with the runs of its days."""
        self._accounts |= {walk.account, research_account(walk.account)}

    def play(self, seconds: float) -> None:
        """Play for about so long."""
        until = time.monotonic() + seconds
        while (now := time.monotonic()) < until:
            try:
                if not self._waiting:
                    self._look()
                if not self._waiting:
                    self._require_served()
                if now >= self._swept + (BUSY_SWEEP_SECONDS if self._waiting else leases.SWEEP_SECONDS):
                    self._swept = now
                    sweep(self.app)
                if self._desk.shortages.why_not() is None and self._waiting:
                    self._play_together()
                else:
                    time.sleep(POLL_SECONDS)
            except Exception as error:
                if not is_lost(error):
                    raise
                log.warning("database.lost", error=str(error), again_in_seconds=AWAY_SECONDS)
                time.sleep(AWAY_SECONDS)

    def close(self) -> None:
        self._desk.drain.request()
        self._desk.close()

    def _play_together(self) -> None:
        before, until = tuple(self._waiting), time.monotonic() + TOGETHER_SECONDS
        try:
            with self._desk.store.together():
                while self._waiting and self._desk.shortages.why_not() is None and time.monotonic() < until:
                    # The newest first: a session after the other, so that what is computed for one is at hand.
                    work(self.app, self._waiting.pop().id, handle)
        except BaseException:  # nothing of it was written
            self._waiting = deque(before)
            raise
        time.sleep(PAUSE_SECONDS)

    def _look(self) -> None:
        """Take what is due of the walks: at the begin, after an outage, and what others gave back."""
        with self._desk.store.read() as session:
            due = (Step.state == StepState.READY, col(Step.due_at) <= utcnow(), Step.attempt < Step.max_attempts)
            own = (col(Run.account).in_(self._accounts), Run.state == RunState.RUNNING)
            rows = session.exec(select(Step).join(Run).where(*due, *own).order_by(col(Step.created_at))).all()
        self._waiting.extend(ready_of(row) for row in rows if kinds.find_step(row.kind) is not None)

    def _require_served(self) -> None:
        """Raise UsageError when all that is left of the walks are steps that this process cannot do: nobody takes them
        from it, so it would wait for ever. The walk stays as it is, for a process that can."""
        going = col(Step.state).in_((StepState.READY, StepState.RUNNING))
        own = (col(Run.account).in_(self._accounts), Run.state == RunState.RUNNING)
        with self._desk.store.read() as session:
            rows = session.exec(
                select(Step.run_id, Step.state, Step.kind, Step.error).join(Run).where(going, *own)
            ).all()
        lacks = [_lack_of(kind, error) if state == StepState.READY else None for _, state, kind, error in rows]
        if not rows or None in lacks:
            return
        reason = f"nobody can go on with the backtest: run {rows[0][0]} waits for {lacks[0]}"
        change = f"take {', '.join(features.off())} out of {features.OFF}" if features.off() else "see to that"
        raise UsageError(reason, remedy=f"{change}, then go on with `desk backtest --resume`")

    def _take(self, ready: Sequence[ReadyStep]) -> None:
        """Keep ready steps of the walks. Those of other runs, which a sweep found, and of a kind that is not known here
        are for the workers."""
        others = []
        for step in ready:
            if self._account_of(step.run_id) in self._accounts and kinds.find_step(step.kind) is not None:
                self._waiting.append(step)
            else:
                others.append(step.id)
        if others:
            with self._desk.store.session() as session:
                step_queries.mark_unsent(session, others)

    def _read_account(self, run_id: str) -> str:
        with self._desk.store.read() as session:
            return session.get_one(Run, run_id).account


def _lack_of(kind: str, error: str | None) -> str | None:
    """For which other process a step waits, None of one that is done here."""
    if kinds.find_step(kind) is None:
        return f"{policy.A_WORKER}the step {kind}, which is not known here"
    why = policy.waits_for(error)
    return why if why is not None and why.startswith(policy.A_WORKER) else None
