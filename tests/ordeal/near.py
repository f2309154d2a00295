"""How often a fresh turn of rules says otherwise where all has moved, but nothing so far that a report would not count
again: `python -m tests.ordeal.near`.

Candidates of the screens of some days are researched on the market as it was, then on answers in which every price,
ratio, return, RSI and number of days to an event is another one, as far away as `DESK_REUSE=near` allows. That is more
than an hour does to a market: it is what reuse may cost, not what it does.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from chordesk.agents.report_reuse import difference
from tests.ordeal.ablation import DAYS, Research

TOLERANCE = 0.02
TRIES = 5  # of each candidate, with other moves
STEPS = (1.0, 0.5, 0.25, 0.1)  # a move that is too far for its figure is tried again with a part of it


class Moved(Research):
    """A day's candidates as they were when they were researched first, and with answers that have moved."""

    moves: random.Random | None = None

    def _answer(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = super()._answer(tool, arguments)
        if self.moves is None:
            return found
        now: dict[str, Any] = moved(found, self.moves, tool)
        assert difference(found, now, TOLERANCE, tool) is None
        return now


def moved(value: Any, moves: random.Random, path: str, price: float | None = None) -> Any:
    """Return a value in which each figure has moved within its own tolerance."""
    if isinstance(value, Mapping):
        price = value.get("close", value.get("lastClose", price))
        return {name: moved(one, moves, f"{path}.{name}", price) for name, one in value.items()}
    if isinstance(value, list):
        return [moved(one, moves, path, price) for one in value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    way = moves.uniform(-1, 1)
    for part in STEPS:
        for far in (7.0, TOLERANCE * abs(value), TOLERANCE):  # points of RSI, a share of a price, what a return may be
            other = value + part * way * far
            other = round(other) if isinstance(value, int) else other
            if other != value and difference(value, other, TOLERANCE, path, price) is None:
                return other
    return value


def _verdict(report: str) -> Any:
    return orjson.loads(report)["verdict"]


def _probability(report: str) -> float | None:
    thesis = orjson.loads(report)["thesis"] or {}
    found: float | None = thesis.get("probability")
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        days = [Moved(Path(home), day) for day in DAYS]
        reports = otherwise = verdicts = ratings = 0
        apart: list[float] = []
        for day in days:
            for subject in day.subjects:
                day.moves = None
                rating, said = day.verdict(subject, "", {})
                for number in range(TRIES):
                    day.moves = random.Random(f"{subject['symbol']}{number}")
                    other, now = day.verdict(subject, "", {})
                    reports, verdicts, ratings = reports + len(said), verdicts + 1, ratings + (rating != other)
                    otherwise += sum(_verdict(a) != _verdict(b) for a, b in zip(said, now, strict=True))
                    pairs = zip(map(_probability, said), map(_probability, now), strict=True)
                    apart += [abs(a - b) for a, b in pairs if a is not None and b is not None]
        print(
            f"{verdicts} verdicts of {reports} reports on {len(days)} days, every figure moved within {TOLERANCE:.0%}"
        )
        print(f"reports with another verdict: {otherwise} ({otherwise / reports:.1%})")
        print(f"ratings that are others: {ratings} ({ratings / verdicts:.1%})")
        print(
            f"probabilities: {statistics.fmean(apart):.4f} apart on average, at most {max(apart):.4f}, n {len(apart)}"
        )


if __name__ == "__main__":
    main()
