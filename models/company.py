"""Company nouns: reports, statements, short interest, ratings, insiders and filings of a company.

Every row has `known_at`, from when on it could be known: its publication where the source gives one, else the time of
the fetch. Tools drop rows later than the market's now. Fractions are fractions (0.05 is five per cent), amounts are in
the listing's currency, times timezone-aware.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from chordesk.models.answers import Wire
from chordesk.models.market import Price

Amount = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Timing = Literal["beforeOpen", "duringSession", "afterClose"]


class EarningsDate(Wire):
    """One report of a company's earnings, past or expected.

    date: New York's. until: last day of the window that the source gives while the date is not fixed. timing: where in
    the day, None where it is not known. confirmed: False for the source's own estimate of the date, None where it does
    not state which. eps_estimate, eps_actual: per share; the actual one is known from the report on, whatever
    `known_at` is. known_at: from when on the date was known; without a publication time of its own, a source of past
    days gives the end of the date itself, so that a replay does not know it before.
    """

    symbol: str
    date: dt.date
    until: dt.date | None = None
    timing: Timing | None = None
    confirmed: bool | None = None
    eps_estimate: Amount | None = None
    eps_actual: Amount | None = None
    known_at: AwareDatetime


class Statement(Wire):
    """One figure of a company's statements, as one filing has it.

    start, period: first and last day that the figure is of; a figure of one day has no start, and neither has one whose
    source gives none. filed: when the figure was first public; known_at: from when on it is shown, the beginning of
    that day where the source gives no time.
    """

    symbol: str
    start: dt.date | None = None
    period: dt.date
    filed: dt.date
    item: str
    value: Amount
    known_at: AwareDatetime


class ShortInterest(Wire):
    """Shares sold short at one settlement.

    date: the settlement's. ratio: days to cover, shares short to the average daily volume. of_float, of_outstanding:
    fractions. prior_*: the settlement before.
    """

    symbol: str
    date: dt.date
    shares_short: Count
    ratio: Count | None = None
    of_float: Count | None = None
    of_outstanding: Count | None = None
    prior_shares_short: Count | None = None
    prior_date: dt.date | None = None
    known_at: AwareDatetime


class RatingChange(Wire):
    """A firm's rating of a company. action: such as up, down, init, main, as the source has it; targets: prices."""

    symbol: str
    firm: str
    action: str | None = None
    rating: str | None = None
    prior_rating: str | None = None
    target: Price | None = None
    prior_target: Price | None = None
    known_at: AwareDatetime


class PriceTargets(Wire):
    """What analysts expect on average. mean_rating: 1 is a strong buy, 5 a strong sell."""

    symbol: str
    mean: Price | None = None
    median: Price | None = None
    low: Price | None = None
    high: Price | None = None
    analysts: Count | None = None
    rating: str | None = None
    mean_rating: Amount | None = None
    known_at: AwareDatetime


class InsiderTrade(Wire):
    """A trade that an insider reported.

    date: of the trade, which is published some days later. side: None for grants, gifts, exercises and whatever is not
    plainly a purchase or a sale in the market. value: in currency.
    """

    symbol: str
    date: dt.date
    insider: str
    position: str | None = None
    side: Literal["buy", "sell"] | None = None
    shares: Count | None = None
    value: Count | None = None
    text: str | None = None
    known_at: AwareDatetime


class Holder(Wire):
    """A reported holding of an institution. date: the day of the report; change: fraction since the one before."""

    symbol: str
    date: dt.date
    holder: str
    shares: Count | None = None
    of_outstanding: Count | None = None
    change: Amount | None = None
    known_at: AwareDatetime


class Filing(Wire):
    """A document filed with the SEC. items: of an 8-K, such as 2.02. period: the day that a report is of."""

    symbol: str
    form: str
    filed: dt.date
    period: dt.date | None = None
    items: tuple[str, ...] = ()
    title: str | None = None
    accession: str
    url: str
    known_at: AwareDatetime
