"""Memory of one research worker over many screens, one after the other, so that it is never idle.

Each screen is of the same four names on the same day: what a worker keeps of a screen shows as growth, and nothing else
does. The first screens load libraries and fill caches. Kept threads grow for 40 turns and start afresh, and the memory
rises and falls with them: the tens of screens with the most are compared, in the first screens and later.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import psutil

from chordesk.tasks.workflows.screen import open_screen
from tests.ordeal.timing import has_ended
from tests.stack import Processes, processes, wait_for

SYMBOLS = "AAPL,IBM,KO,PEP"
FIRST = 50  # screens after which the memory is to stay as it is: more than the 40 turns of a kept thread
AROUND = 10  # screens of which the median counts: a single one depends on the moment


@dataclass(frozen=True, slots=True)
class Growth:
    """Resident MiB of the worker's own process after each screen."""

    megabytes: list[float]

    @property
    def before(self) -> float:
        """The most in the first screens."""
        return _most(self.megabytes[:FIRST])

    @property
    def after(self) -> float:
        """The most later."""
        return _most(self.megabytes[FIRST:])


def growth(screens: int) -> Growth:
    """Raises AssertionError when a screen does not end as done."""
    assert screens > FIRST, f"more than {FIRST} screens: the first ones do not count"
    with processes(forked=False) as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        worker = psutil.Process(desk.running["research"].pid)
        return Growth([_after_a_screen(desk, worker) for _ in range(screens)])


def _after_a_screen(desk: Processes, worker: psutil.Process) -> float:
    run = open_screen(desk.app, SYMBOLS, max_candidates=len(SYMBOLS.split(",")))
    assert run is not None
    wait_for(lambda: has_ended(desk.app.desk.store, run.id), "the screen ends")
    return float(worker.memory_info().rss / 2**20)


def _most(values: list[float]) -> float:
    return max(median(values[at : at + AROUND]) for at in range(0, len(values), AROUND))
