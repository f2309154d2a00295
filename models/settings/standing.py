"""The standing of a desk or a run: live or preview, and what it would trade with."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any
from zoneinfo import ZoneInfo

from chordesk.models.research import Frozen
from chordesk.models.settings.accounts import is_backtest
from chordesk.models.settings.schema import REAL_MONEY, Settings
from chordesk.models.settings.surroundings import REPLAYING

_NEW_YORK = ZoneInfo("America/New_York")


class Standing(Frozen):
    """Live, preview or, of a backtest, simulated; broker and account, model, market and day.

    live: None where it is not known. real_money: orders that are sent move real money. day: of the market, in New York.
    """

    live: bool | None
    real_money: bool
    broker: str
    account: str
    model: str
    market: str
    day: dt.date

    def __str__(self) -> str:
        switch = "unknown whether live" if self.live is None else "LIVE" if self.live else "preview"
        switch = "simulated" if is_backtest(self.account) else switch
        broker = f"{self.broker} (REAL MONEY)" if self.real_money else self.broker
        return (
            f"{switch}; broker {broker}; account {self.account}; model {self.model}; "
            f"market {self.market} on {self.day:%Y-%m-%d}"
        )


def standing_of(settings: Settings) -> Standing:
    """Return the standing of a desk with these settings, today."""
    today = dt.datetime.now(_NEW_YORK).date()
    return Standing(
        live=settings.trader_live,
        real_money=settings.trader_live and settings.real_money,
        broker=settings.broker,
        account=settings.account,
        model=settings.model_label,
        market=settings.market,
        day=settings.replay_date if settings.market in REPLAYING else today,
    )


def standing_of_run(
    kept: Mapping[str, Any] | None, account: str, model: str, market: str, market_now: dt.datetime
) -> Standing:
    """Return the standing of a run by its columns. kept: its settings, None in a run of a version that kept none."""
    live, broker = (kept or {}).get("trader_live"), (kept or {}).get("broker", account)
    return Standing(
        live=live,
        real_money=live is not False and broker in REAL_MONEY,
        broker=broker,
        account=account,
        model=model,
        market=market,
        day=market_now.astimezone(_NEW_YORK).date(),
    )
