"""What code works out before an order, and what a position keeps: bounds of a size, stress of the book, plans."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from chordesk.models.answers import ActionPlan, TraderAction, Wire


class SizeBound(Wire):
    """One bound of a position's size. most: in account currency; None where a figure that it needs is missing, which
    `why` names."""

    rule: str
    most: float | None
    why: str


class HeldOverlap(Wire):
    """What a candidate shares with a holding. correlation: of their gains; None without 60 returns of both."""

    symbol: str
    correlation: float | None
    same_company: bool


class Sizing(Wire):
    """The bounds of a candidate, worked out by code. most: the strictest known bound, of the rule `bound`; None where
    none is known: nothing is opened then.

    company: a key that all listings of one company share. price: the last close. stop: where the position is wrong, of
    stop_source. volatility, beta, sector_share, heat: what a position of `most` adds to the portfolio's volatility a
    year, its beta and its heat, and the sector's share of equity with it. sessions: of returns behind correlations,
    beta and volatility. days_to_trade: sessions in which `most` fills at the share of a median day's volume that fills
    may be. round_trip: what buying and selling cost as a fraction of the price. next_report: the day of the next
    results, as it is known today. missing: figures that are not known, with the reason.

    currency: of price, ATR and stop, where it is not the account's, as the bounds are; rate: of one unit of it. lot:
    what a purchase is a multiple of. These are left out of every dump where they are as in New York.
    """

    symbol: str
    company: str
    price: float | None
    atr14: float | None
    stop: float | None
    stop_source: str | None
    bounds: list[SizeBound]
    bound: str | None
    most: float | None
    volatility: float | None
    beta: float | None
    sector: str | None
    sector_share: float | None
    heat: float | None
    overlap: list[HeldOverlap]
    sessions: int
    days_to_trade: float | None
    round_trip: float | None
    next_report: dt.date | None
    missing: list[str]
    currency: str | None = None
    rate: float | None = None
    lot: float = 1.0

    @property
    def price_base(self) -> float | None:
        """The price in the account's currency."""
        return self.price if self.currency is None or self.price is None else self.price * (self.rate or 0.0)

    @model_serializer(mode="wrap")
    def _told(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        left_out = {"currency": None, "rate": None, "lot": 1.0}
        return {name: value for name, value in dump(self).items() if left_out.get(name, _SAID) != value}


_SAID = object()


class Stress(Wire):
    """Losses of the holdings as shares of equity, negative: on their worst day of the window, by beta if the market
    fell by a tenth, and if each gapped by three ATRs against them. names: behind the market's returns."""

    worst_day: float | None
    market_fall: float | None
    gap: float | None
    sessions: int
    names: int
    missing: list[str]


class ExitReason(StrEnum):
    """Why a position is closed."""

    INVALIDATION = "invalidation"  # its price crossed the stop of the plan
    HORIZON = "horizon"  # the sessions of the plan are over
    TARGET = "target"  # its price reached what the plan expected
    VERDICT = "verdict"  # the desk's verdict on it changed


class PositionPlan(ActionPlan):
    """The plan of an order and of the position that it opened. entry: the price that it was planned at; most, bound:
    the money that the order might be, and the rule that held; asked: the money that the trader asked for, where that
    was more. ends: the session after which the horizon is over. by_code: fields that the trader left to code."""

    entry: float | None = None
    most: float | None = None
    bound: str | None = None
    asked: float | None = None
    stop_source: str | None = None
    ends: dt.date | None = None
    by_code: list[str] = []

    def after(self, growth: float) -> PositionPlan:
        """Return the plan in shares of a later day. growth: what its prices are divided by."""
        if growth == 1:
            return self
        prices = {name: price / growth for name in ("entry", "stop", "target") if (price := getattr(self, name))}
        return self.model_copy(update=prices)


class DecidedAction(TraderAction):
    """An action as it is kept: with the whole plan."""

    plan: PositionPlan | None = None
