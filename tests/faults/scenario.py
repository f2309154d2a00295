"""A scenario, its result, and the table."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.faults.check import Findings
from tests.faults.desk import CREW, FaultDesk


@dataclass(slots=True)
class Result:
    """One scenario, over all its repetitions. takeover: the slowest, seconds; None when nothing had to be taken.
    figures: what was counted, by name. skipped: why it was not played.
    """

    name: str
    runs: int = 0
    takeover: float | None = None
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    skipped: str = ""

    def took(self, seconds: float) -> None:
        self.takeover = max(self.takeover or 0.0, seconds)

    def merge(self, other: Result) -> None:
        self.runs += other.runs
        self.seconds += other.seconds
        self.findings.add(other.findings)
        self.notes += other.notes
        self.figures += other.figures
        self.skipped = other.skipped or self.skipped
        if other.takeover is not None:
            self.took(other.takeover)


# Does its harm to runs of its own and puts what it found into the result.
Act = Callable[[FaultDesk, random.Random, Result], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """times: repetitions in the long version, each with a seed of its own. short: whether the short version has it.

    environ: settings that its desk needs; scenarios with the same ones share a desk. launcher: how its
    crew starts. switches: files in its desk's folder while it plays. postgres: whether its desk's database is one.
    """

    name: str
    act: Act
    times: int = 1
    short: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    launcher: tuple[str, ...] = ()
    crew: tuple[str, ...] = CREW
    switches: tuple[str, ...] = ()
    postgres: bool = False


def perform(scenario: Scenario, desk: FaultDesk, seed: int) -> Result:
    """One repetition. What it raises is a finding: the others go on."""
    result = Result(scenario.name)
    began = time.monotonic()
    try:
        with desk.switched(*scenario.switches):
            scenario.act(desk, random.Random(seed), result)
    except Exception as error:
        result.findings.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    result.seconds = time.monotonic() - began
    return result


def table(results: Iterable[Result]) -> str:
    rows = [("scenario", "runs", "lost", "doubled", "slowest takeover", "seconds", "")]
    for result in results:
        found = result.findings
        takeover = f"{result.takeover:.1f} s" if result.takeover is not None else "-"
        verdict = result.skipped or ("ok" if found.clean else "WRONG" if found.wrong else "FAILED")
        counts = (str(result.runs), str(len(found.lost)), str(len(found.doubled)))
        rows.append((result.name, *counts, takeover, f"{result.seconds:.0f}", verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def order_figures(results: Iterable[Result]) -> str:
    """Return the outcome of all orders in one line; empty when there was none."""
    counted = sum((result.figures for result in results), Counter[str]())
    if not counted:
        return ""
    at_broker = f"{counted['orders']} orders at the broker, {counted['twice']} of them more than once"
    rest = f"{counted['denied']} denied by a halt, {counted['unknown']} unknown and never there"
    return f"{at_broker}; {counted['fills']} fills booked; {rest}"
