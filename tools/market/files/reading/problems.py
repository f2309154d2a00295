"""Problems of a data folder, each with its file, row and column; bounded, so that a file of nonsense gives a few lines
and a count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["error", "warning"]
SHOWN_A_FILE = 5


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One problem. row: line of a text file, or row of a Parquet file, the header being the first."""

    level: Level
    file: str
    message: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        place = [self.file]
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.column is not None:
            place.append(f"column {self.column}")
        return f"{', '.join(place)}: {self.message}"


@dataclass(slots=True)
class Problems:
    """Collector of problems, the first few of each file and level; the others are counted. most: so many a file."""

    most: int = SHOWN_A_FILE
    found: list[FileProblem] = field(default_factory=list)
    counts: Counter[tuple[str, Level]] = field(default_factory=Counter)

    def error(self, file: str, message: str, row: int | None = None, column: str | None = None) -> None:
        self._add(FileProblem("error", file, message, row, column))

    def warn(self, file: str, message: str, row: int | None = None, column: str | None = None) -> None:
        self._add(FileProblem("warning", file, message, row, column))

    @property
    def errors(self) -> int:
        return self._total("error")

    @property
    def warnings(self) -> int:
        return self._total("warning")

    def of(self, level: Level) -> list[FileProblem]:
        return [problem for problem in self.found if problem.level == level]

    def left_out(self) -> dict[tuple[str, Level], int]:
        """Return the number of problems that were not kept, by file and level."""
        kept = Counter((problem.file, problem.level) for problem in self.found)
        return {key: count - kept[key] for key, count in self.counts.items() if count > kept[key]}

    def _add(self, problem: FileProblem) -> None:
        key = (problem.file, problem.level)
        self.counts[key] += 1
        if self.counts[key] <= self.most:
            self.found.append(problem)

    def _total(self, level: Level) -> int:
        return sum(count for (_, kind), count in self.counts.items() if kind == level)
