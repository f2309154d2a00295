"""What it costs to look whether earlier reports count again where none does: processor time of the same screen on a
desk that looks and on one that does not, in pairs."""

from __future__ import annotations

import contextlib
import statistics
from dataclasses import dataclass
from typing import Any

import orjson
import psutil
from sqlmodel import select

from chordesk.models.database.blobs import pack
from chordesk.models.outside import inflated
from chordesk.models.tables.runs import ReportBasis, Run, ShardBasis
from chordesk.tasks.reading.runs import progress
from chordesk.tasks.workflows.screen import open_screen
from tests.ordeal.timing import has_ended
from tests.ordeal.turns import seconds_of
from tests.stack import Processes, processes, wait_for

WORKERS = ("research", "ops", "trade")
RUN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class LookCost:
    """CPU seconds of a screen, in pairs: on the desk that does not look, and on the one that looks in vain."""

    pairs: tuple[tuple[float, float], ...]
    turns: int

    @property
    def more(self) -> float:
        """The middle of the pairs' ratios, less 1: a pair has the same machine, whatever else runs on it."""
        return statistics.median(self._ratios) - 1

    @property
    def range(self) -> tuple[float, float]:
        """Of the middle half of the pairs."""
        first, _, third = statistics.quantiles(self._ratios, n=4)
        return first - 1, third - 1

    @property
    def _ratios(self) -> list[float]:
        return [looks / off for off, looks in self.pairs]


def look_cost(candidates: int, pairs: int) -> LookCost:
    with contextlib.ExitStack() as stack:
        desks = [stack.enter_context(processes(forked=False, DESK_REUSE=choice)) for choice in ("off", "near")]
        for desk in desks:
            desk.rulebook()
            desk.workers(*WORKERS)
            _screen(desk, candidates)  # its app-servers are up, and there are reports to look at
        found = []
        turns = 0
        for number in range(pairs):
            spent = {}
            for desk in desks if number % 2 else desks[::-1]:
                _change_all(desk)
                before = _spent(desk)
                turns = _screen(desk, candidates)
                spent[id(desk)] = _spent(desk) - before
            found.append((spent[id(desks[0])], spent[id(desks[1])]))
    return LookCost(tuple(found), turns)


def _spent(desk: Processes) -> float:
    """CPU seconds of a desk's workers, of their app-servers and of Redis."""
    return sum(seconds_of(psutil.Process(desk.running[name].pid), children=True) for name in (*WORKERS, "redis"))


def _screen(desk: Processes, candidates: int) -> int:
    run, store = open_screen(desk.app, "sp500", max_candidates=candidates), desk.app.desk.store
    assert run is not None
    wait_for(lambda: has_ended(store, run.id), "the screen ends", RUN_SECONDS)
    with store.read() as session:
        ended = session.get_one(Run, run.id)
        assert ended.state == "done", ended.notes
        assert "reused" not in ended.summary, "something counted again"
        return progress(session, run.id).turns


def _change_all(desk: Processes) -> None:
    """Every number of every kept answer is another: what differs is found in the first answer, as where all moved."""
    with desk.app.desk.store.session() as session:
        for kind in (ReportBasis, ShardBasis):
            for basis in session.exec(select(kind)).all():
                basis.calls = pack(orjson.dumps(_moved(orjson.loads(inflated("calls", basis.calls)))))


def _moved(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _moved(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_moved(one) for one in value]
    return value * 2 + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value
