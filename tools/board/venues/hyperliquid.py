"""Hyperliquid's wire for funding rates: its own, and those it predicts for Binance and Bybit."""

from __future__ import annotations

import datetime as dt

from pydantic import TypeAdapter

from chordesk.tools.board.venues.funding import OWN, OWN_HOURS, FundingPaid, FundingRate
from chordesk.tools.board.venues.json_client import MomentMs, NumberText, Shape, venue_at

NAME, TITLE = "hyperliquid", "Hyperliquid"
# 1,200 points of weight a minute are allowed; a question of funding takes 20, its history up to 45.
_ROWS, _PAGES = 500, 6


class _Predicted(Shape):
    fundingRate: NumberText
    nextFundingTime: MomentMs
    fundingIntervalHours: float | None = None


class _Row(Shape):
    coin: str
    fundingRate: NumberText
    premium: NumberText
    time: MomentMs


_PREDICTED = TypeAdapter(list[tuple[str, list[tuple[str, _Predicted | None]]]])
_HISTORY = TypeAdapter(list[_Row] | None)


class Hyperliquid:
    """Funding rates. Raises as EventVenue does."""

    name = NAME

    def __init__(self, base: str) -> None:
        self._http = venue_at(TITLE, base)

    def predicted(self) -> dict[str, tuple[FundingRate, ...]]:
        """Return the next rates by coin, of the venues that have one."""
        rows = self._http.post(_PREDICTED, "/info", {"type": "predictedFundings"})
        return {
            coin: tuple(
                FundingRate(venue, one.fundingRate, _hours(venue, one), one.nextFundingTime)
                for venue, one in venues
                if one is not None
            )
            for coin, venues in rows
        }

    def history(self, coin: str, since: dt.datetime, until: dt.datetime) -> tuple[FundingPaid, ...]:
        """Return the rates paid at Hyperliquid, hourly, the oldest first; none of a coin that it does not have."""
        first, last = (int(moment.timestamp() * 1000) for moment in (since, until))
        found: dict[dt.datetime, float] = {}
        for _ in range(_PAGES):
            asked = {"type": "fundingHistory", "coin": coin, "startTime": first, "endTime": last}
            rows = self._http.post(_HISTORY, "/info", asked) or []
            paid = {row.time: row.fundingRate for row in rows if row.time is not None}
            found |= paid
            if len(rows) < _ROWS or not paid:
                break
            first = int(max(paid).timestamp() * 1000) + 1
        return tuple(FundingPaid(at, found[at]) for at in sorted(found))


def _hours(venue: str, predicted: _Predicted) -> float | None:
    return predicted.fundingIntervalHours or (OWN_HOURS if venue == OWN else None)
