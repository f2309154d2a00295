"""events: earnings within ten sessions, by what was known at now."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence

import pytest

from chordesk.models.company import EarningsDate
from chordesk.models.errors import MarketUnavailable
from chordesk.tools.board.registry import Tombstone
from chordesk.tools.board.symbol_signals import sessions_until
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, ended, harvested
from tests.tools.market.far_market import TODAY, FarMarket


@dataclasses.dataclass(eq=False)
class Reporting(FarMarket):
    """A market that knows when companies report."""

    dates: Mapping[str, Sequence[EarningsDate]] = dataclasses.field(default_factory=dict)

    def earnings(self, symbol: str) -> Sequence[EarningsDate]:
        self._ask(symbol)
        return self.dates.get(symbol, ())


def report(symbol: str, day: str, known: str = "2024-03-01", **changes: object) -> EarningsDate:
    at = dt.datetime.combine(dt.date.fromisoformat(known), dt.time(12), dt.UTC)
    return EarningsDate.model_validate({"symbol": symbol, "date": day, "known_at": at, **changes})


def test_reports_within_ten_sessions_the_nearest_first(make_context: MakeContext) -> None:
    """2024-03-15 is a Friday; the exchange is closed on the 29th, so the tenth session after it is April 1st."""
    market = Reporting(
        dates={
            "FAR": [report("FAR", "2024-04-02")],
            "EDGE": [report("EDGE", "2024-04-01", confirmed=False, until="2024-04-03")],
            "SOON": [report("SOON", "2024-03-18", timing="beforeOpen", confirmed=True, eps_estimate=1.25)],
            "OUT": [report("OUT", "2024-03-14", eps_actual=2.0)],
            "HIDDEN": [report("HIDDEN", "2024-03-19", known="2024-03-16")],
        }
    )
    soon, edge = harvested("events", board(make_context(market), "FAR", "EDGE", "SOON", "OUT", "HIDDEN"))
    assert soon.headline == "SOON reports earnings in 1 sessions: 2024-03-18, before the open"
    assert (soon.confidence, soon.direction, soon.data["epsEstimate"]) == (0.95, "neutral", 1.25)
    assert soon.as_of == dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
    assert (edge.data["sessionsUntil"], edge.confidence) == (10, 0.4)
    assert edge.data["when"] == "2024-04-01 to 2024-04-03"
    assert soon.data["missing"] == ["HIDDEN", "OUT"], "a date that is not known is no sign of none"


@pytest.mark.parametrize(
    ("day", "ahead"), [("2024-03-15", 0), ("2024-03-16", 0), ("2024-03-18", 1), ("2024-03-28", 9), ("2024-03-29", 9)]
)
def test_sessions_are_the_exchange_s(day: str, ahead: int) -> None:
    assert sessions_until(dt.date.fromisoformat(day), TODAY) == ahead


def test_nothing_near_and_no_source_are_dormant_with_the_reason(
    market: ReplayMarket, make_context: MakeContext
) -> None:
    far = Reporting(dates={"A": [report("A", "2024-06-03")]})
    asleep = dormant("events", board(make_context(far), "A", "B"))
    assert asleep == "no report within 10 sessions; no date is known of B"
    assert "the replay market has no earnings dates" in dormant("events", board(make_context(market), "IBM"))


def test_a_source_that_is_away_is_offline(make_context: MakeContext) -> None:
    far = Reporting(trouble={"A": MarketUnavailable("down", remedy="ask again")})
    assert ended("events", board(make_context(far), "A")) == Tombstone("down (ask again)", retryable=True)
