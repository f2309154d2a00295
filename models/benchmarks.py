"""What a public benchmark is to the desk. A feature or a package adds one by its name, as "module:BENCHMARK"."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A row of a benchmark's table: who, the figures by column (a missing one is not a zero), and where it stands."""

    who: str
    figures: Mapping[str, float | None]
    source: str = "this desk"


@dataclass(frozen=True, slots=True)
class Measured:
    """What a benchmark came to. details: further figures for programs; lines: what to know of the table."""

    rows: Sequence[Row]
    details: Sequence[Mapping[str, object]] = ()
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Play:
    """A walk that the desk does in a home of its own on a folder of data. values: the account after each session."""

    data: Path
    first: dt.date
    last: dt.date
    slippage_basis_points: float


class Played(NamedTuple):
    """model: who answered. invested: share of equity on average, None where it is not known."""

    model: str
    values: Sequence[float]
    invested: float | None = None


class Board(NamedTuple):
    """Questions that voices forecast together. day: of the run's clock; questions: external ids."""

    day: dt.date
    questions: Sequence[str]


@dataclass(frozen=True, slots=True)
class Ask:
    """Boards that the desk's voices forecast one after the other, in a home of its own. files: the question sets, which
    are imported with their outcomes."""

    files: Path
    boards: Sequence[Board]


class Answered(NamedTuple):
    """model: who answered. voices: by voice, and as "" by all together, the probability by the question's external
    id; what is not there was not forecast. tokens: of all turns. blind: by all together in round 1, where there were
    two."""

    model: str
    voices: Mapping[str, Mapping[str, float]]
    turns: int
    tokens: int
    blind: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What a user asks for beside the folder. play, ask: let the desk play, or forecast; None where only code shall
    answer. sets: days of question sets, all by default; questions: so many are asked; seed: of their choice; forecasts:
    a file of somebody's answers; export: a folder for our own."""

    play: Callable[[Play], Played] | None = None
    sets: Sequence[dt.date] = ()
    forecasts: Path | None = None
    export: Path | None = None
    ask: Callable[[Ask], Answered] | None = None
    questions: int = 50
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A public benchmark.

    purpose: a line for people. columns: of its table, each with the format of its figures. published: rows of others.
    measure: reads the folder and returns the desk's rows; raises UsageError with what is wrong with the folder.
    options: those of Given that it knows. note: what to know before own rows are compared with published ones.
    """

    purpose: str
    columns: Mapping[str, str]
    published: Sequence[Row]
    measure: Callable[[Path, Given], Measured]
    options: frozenset[str] = field(default_factory=frozenset)
    note: str = ""
