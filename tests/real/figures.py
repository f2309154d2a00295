"""The figures of one `make real`, as a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from chordesk.models.tables.runs import Report, Turn
from tests.real.desk import outcomes
from tests.real.server import Work


@dataclass(slots=True)
class Figures:
    """Of the research: its reports and turns, its seconds, and what the server did by its own count."""

    reports: list[Report] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    work: Work = field(default_factory=Work)
    research_seconds: float = 0.0

    def lines(self) -> list[str]:
        """Return the table, empty where no research was tried."""
        if not self.turns:
            return []
        rows = {
            "tokens a second": self.work.speeds,
            "tokens by the server": _tokens(self.work.read + self.work.cached, self.work.cached, self.work.written),
            "tokens by the desk": self._counted(),
            "ways of the turns": "; ".join(ways(self.turns)),
            "reports by outcome": ", ".join(f"{count} {name}" for name, count in outcomes(self.reports).items()),
            "reasons": "; ".join(dict.fromkeys(str(one.reason)[:90] for one in self.reports if one.reason)),
            "seconds of the research": f"{self.research_seconds:.0f}, of its turns {self._turn_seconds()}",
        }
        return [f"{name:<24}{text}" for name, text in rows.items()]

    def _counted(self) -> str:
        counted = [turn for turn in self.turns if turn.total_tokens is not None]
        told = _tokens(
            *(sum(getattr(turn, name) or 0 for turn in counted)
              for name in ("input_tokens", "cached_input_tokens", "output_tokens"))
        )  # fmt: skip
        unknown = len(self.turns) - len(counted)
        return f"{told}{f'; {unknown} turns without a count' if unknown else ''}"

    def _turn_seconds(self) -> str:
        each = [(turn.finished_at - turn.started_at).total_seconds() for turn in self.turns]
        return f"{statistics.median(each):.0f} (median) to {max(each):.0f}"


def ways(turns: Sequence[Turn]) -> list[str]:
    """Return each way with how many turns took it."""
    told = [turn.way for turn in turns if turn.way]
    return [f"{told.count(way)} x {way}" for way in dict.fromkeys(told)]


def _tokens(read: float, cached: float, written: float) -> str:
    return f"{read:,.0f} read, {cached:,.0f} of them cached ({cached / max(read, 1):.0%}), {written:,.0f} written"
