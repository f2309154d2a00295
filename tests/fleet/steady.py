"""Turns per second of a fixed number of workers with more queued than they can do, and what a turn costs then."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlmodel import col, func, select

from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Attempt, Turn
from chordesk.tasks.engine.step_queries import demand
from tests.fleet.controller import Controller
from tests.fleet.costs import Cost, Counters, load
from tests.fleet.crew import RESEARCH
from tests.stack import wait_for

FEED_SECONDS = 0.5
AHEAD = 3  # times the workers' turns at once are kept due or in work
GRID = 2000  # points of the running count
WARM = 3  # times its turns at once, and a worker counts as at work


@dataclass(frozen=True, slots=True)
class Steady:
    """rate: turns a second. left: steps due or in work at the end; fewer than the workers' turns, and they idled."""

    workers: int
    rate: float
    turns: int
    left: int
    cost: Cost
    load: str


def measure(controller: Controller, workers: int, seconds: float, feed: Callable[[int], None]) -> Steady:
    """Hold this number of workers, wait until each of them is well at work, and measure for so many seconds. feed:
    opens runs when less than so many steps are due; called all the time.

    Runs that begin and end all the time are a mix that stays the same. One large run would have its quick reports
    first, which have no joins, and the dearer ones when there are more workers.
    """
    crew, store, slots = controller.crew, controller.store, controller.scaler.rule.turns
    controller.pause(workers)
    enough = AHEAD * workers * slots

    def fed(condition: Callable[[], bool]) -> bool:
        feed(enough)
        return condition()

    wait_for(lambda: fed(lambda: _settled(controller, workers)), f"{workers} research workers are ready")
    since = utcnow()
    names = [member.name for member in crew.ready(RESEARCH)]
    wait_for(lambda: fed(lambda: _warm(controller, names, since, WARM * slots)), f"{', '.join(names)} are at work")
    before, began, until = Counters.now(crew), utcnow(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        feed(enough)
        time.sleep(min(left, FEED_SECONDS))
    after, ended = Counters.now(crew), utcnow()
    with store.read() as session:
        times = session.exec(
            select(Turn.finished_at).where(col(Turn.finished_at) > began, col(Turn.finished_at) <= ended)
        ).all()
        left = demand(session)
    cost = Cost(after.since(before), max(len(times), 1))
    rate = rate_of([(at - began).total_seconds() for at in times], (ended - began).total_seconds())
    return Steady(workers, rate, len(times), left, cost, load())


def rate_of(times: Sequence[float], seconds: float) -> float:
    """Return events a second over a stretch of so many, from their times since its begin: the slope of their running
    count (least squares over an even grid).

    Turns that began together end together: a count between two moments would be off by a whole batch of them at
    either end.
    """
    grid = np.linspace(0.0, seconds, GRID)
    slope, _ = np.polyfit(grid, np.searchsorted(np.sort(np.asarray(times)), grid, side="right"), 1)
    return float(slope)


def idle(controller: Controller, seconds: float) -> Cost:
    """Measure what the fleet costs a second when nothing is due."""
    before, began = Counters.now(controller.crew), time.monotonic()
    time.sleep(seconds)
    return Cost(Counters.now(controller.crew).since(before), time.monotonic() - began)


def _settled(controller: Controller, workers: int) -> bool:
    """Return whether so many are ready, and none is on its way out."""
    controller.check()
    members = [member for member in list(controller.crew.members.values()) if member.role == RESEARCH]
    return len(members) == workers == len(controller.crew.ready(RESEARCH))


def _warm(controller: Controller, names: Sequence[str], since: dt.datetime, turns: int) -> bool:
    """Return whether each of these has ended so many attempts since then: app-servers start with the first ones."""
    controller.check()
    with controller.store.read() as session:
        rows = session.exec(
            select(Attempt.owner, func.count()).where(col(Attempt.ended_at) > since).group_by(col(Attempt.owner))
        ).all()
    done = {str(owner).partition("@")[0]: number for owner, number in rows}
    return all(done.get(name, 0) >= turns for name in names)
