"""Memory of one research worker over many screens, one after the other, so that it is never idle.

Each screen is of the same four names on the same day: what a worker keeps of a screen shows as growth, and nothing else
does. The first screens load libraries and fill caches. Kept threads grow for 40 turns and start afresh, and the memory
rises and falls with them: medians of as many screens are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import psutil

from chordesk.tasks.reading.runs import progress
from chordesk.tasks.workflows.screen import open_screen
from tests.ordeal.timing import has_ended
from tests.stack import Processes, processes, wait_for

SYMBOLS = "AAPL,IBM,KO,PEP"
FIRST = 50  # screens after which the memory is to stay as it is
CYCLE = 40  # screens of which the median counts: the turns of a kept thread


@dataclass(frozen=True, slots=True)
class Growth:
    """Resident MiB of the worker's own process after each screen."""

    megabytes: list[float]

    @property
    def cycles(self) -> list[float]:
        """Its median in each cycle after the first screens."""
        later = self.megabytes[FIRST:]
        return [median(later[at : at + CYCLE]) for at in range(0, len(later) - CYCLE + 1, CYCLE)]


def growth(screens: int) -> Growth:
    """Raises AssertionError when a screen does not end, or asked no model."""
    assert screens >= FIRST + 2 * CYCLE, f"at least {FIRST + 2 * CYCLE} screens: two cycles after the first {FIRST}"
    # A day's tokens are used up after 145 screens, and later ones would ask no model.
    with processes(forked=False, DESK_BUDGET_DAY_TOKENS="0") as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        worker = psutil.Process(desk.running["research"].pid)
        return Growth([_after_a_screen(desk, worker) for _ in range(screens)])


def _after_a_screen(desk: Processes, worker: psutil.Process) -> float:
    run = open_screen(desk.app, SYMBOLS, max_candidates=len(SYMBOLS.split(",")))
    assert run is not None
    store = desk.app.desk.store
    wait_for(lambda: has_ended(store, run.id), "the screen ends")
    with store.read() as session:
        assert progress(session, run.id).turns, f"screen {run.id} asked no model"
    return float(worker.memory_info().rss / 2**20)
