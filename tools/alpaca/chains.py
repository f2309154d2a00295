"""Alpaca as the source of option chains and prices of contracts, beside a market that has the shares."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from chordesk.models.contracts import OptionChain, root_of
from chordesk.models.errors import DeskError, MarketError, MarketUnavailable, NotConfigured, SettingError
from chordesk.models.market import Quote
from chordesk.models.settings import Settings
from chordesk.tools.alpaca import data_shapes as shapes
from chordesk.tools.alpaca.data_wire import AlpacaData, data_credentials, data_url
from chordesk.tools.market.aged_cache import AgedCache, Kept
from chordesk.tools.market.clock import NEW_YORK, exchange_day
from chordesk.tools.market.protocol import MarketClock, Shares

QUOTE_AGE = dt.timedelta(minutes=1)
INTEREST_AGE = dt.timedelta(hours=3)  # it is published once a day
FEEDS = {"alpaca": "indicative", "alpaca-opra": "opra"}


def build(settings: Settings, shares: Shares, environ: Mapping[str, str] | None = None) -> AlpacaChains:
    """Return the chains of Alpaca's feed that the settings name; no request is made. Raises SettingError for an address
    that is not on loopback."""
    wire = AlpacaData(
        data_url(settings),
        os.environ if environ is None else environ,
        FEEDS[settings.option_chains],
        settings.broker_seconds,
    )
    return AlpacaChains(settings, shares, wire)


def require_credentials(environ: Mapping[str, str]) -> None:
    """Raise SettingError when a credential for data is missing."""
    try:
        data_credentials(environ)
    except NotConfigured as error:
        raise SettingError(str(error.args[0]), remedy=error.remedy) from None


class AlpacaChains:
    """OptionMarket of one feed: `opra` has the exchanges' quotes, `indicative` those that Alpaca calculates from them.

    Quotes, volatility and Greeks are of the snapshots; open interest is that of the trading API's contracts, of an
    earlier day, which the chain names.
    """

    def __init__(self, settings: Settings, shares: Shares, wire: AlpacaData) -> None:
        self._feed = FEEDS[settings.option_chains]
        self.name = f"alpaca {self._feed}"
        self._shares, self._wire = shares, wire
        self._clock: MarketClock = shares.clock
        self._cache = AgedCache(settings.home / "cache" / "alpaca")

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Return the contracts that Alpaca lists now. Raises NotConfigured under a clock that stands on a past day,
        MarketError for a symbol without options."""
        if self._clock.day is not None:
            raise NotConfigured("not available: Alpaca's option chains are those of now, none of a past day")
        spot = self._shares.quote(symbol).price
        kept = self._snapshots(symbol, first, last)
        interest: Mapping[str, Any] = {}
        lacks: tuple[tuple[str, str], ...] = ()
        try:
            interest = self._interest(symbol, first, last)
        except DeskError as error:
            lacks = (("openInterest", str(error.args[0])),)
        session = self._volume_day()
        listed = [
            (row, shapes.chain_row(row, interest.get(row["contract"], (None,))[0], session)) for row in kept.value
        ]
        days = [dt.date.fromisoformat(interest[row["contract"]][1]) for row, _ in listed if row["contract"] in interest]
        return OptionChain(
            symbol,
            min(kept.at, self._clock.now()).astimezone(NEW_YORK),
            self.name,
            spot,
            tuple(row for _, row in listed if row is not None),
            tuple(str(row["contract"]) for row, found in listed if found is None),
            self._shares.dividend_yield(symbol),
            interest_day=min(days, default=None),
            lacks=lacks,
        )

    def option_quote(self, contract: str) -> Quote:
        """Return the price midway between bid and ask at the time of that quote, the last trade where there are not
        both. Raises MarketError when there is neither."""
        if self._clock.day is not None:
            raise NotConfigured("not available: Alpaca's option quotes are those of now, none of a past day")
        key = f"contract-{self._feed}-{contract}"
        rows = self._cache.get(key, QUOTE_AGE, lambda: shapes.rows_of(self._wire.snapshot(contract))).value
        row = next((row for row in rows if row["contract"] == contract), None)
        priced = shapes.price_of(row) if row is not None else None
        if row is None or priced is None:
            raise MarketError(f"unknown contract {contract}: Alpaca has no price of it")
        price, at = priced
        both = at == row["quoted"] and row["bid"] and row["ask"]
        moment = min(_moment(at, contract), self._clock.now()).astimezone(NEW_YORK)
        offers = {name: row[name] for name in ("bid", "ask")} if both else {}
        return Quote.model_validate({"symbol": contract, "price": price, "at": moment, "source": self.name, **offers})

    def _snapshots(self, symbol: str, first: dt.date, last: dt.date) -> Kept:
        def rows(name: str) -> list[shapes.Row]:
            return shapes.rows_of(self._wire.chain(name, first, last))

        return self._found(f"chain-{self._feed}", symbol, first, last, QUOTE_AGE, rows)

    def _interest(self, symbol: str, first: dt.date, last: dt.date) -> Mapping[str, Any]:
        def interest(name: str) -> dict[str, tuple[float, str]]:
            return shapes.interest_of(self._wire.contracts(name, first, last))

        found: dict[str, Any] = self._found("interest", symbol, first, last, INTEREST_AGE, interest).value
        return found

    def _found(
        self, kind: str, symbol: str, first: dt.date, last: dt.date, age: dt.timedelta, fetch: Callable[[str], Any]
    ) -> Kept:
        """Return the answer under the first of a share's names that Alpaca lists contracts of, else the last one's."""
        *earlier, final = _names(symbol)
        for name in earlier:
            with _unknown_passed():
                kept = self._cache.get(f"{kind}-{name}-{first}-{last}", age, partial(fetch, name))
                if kept.value:
                    return kept
        return self._cache.get(f"{kind}-{final}-{first}-{last}", age, partial(fetch, final))

    def _volume_day(self) -> dt.date:
        """Return the exchange's day if its session has begun, else its last session."""
        return exchange_day(self._clock.now()) if self._clock.is_open() else self._clock.session()


@contextmanager
def _unknown_passed() -> Iterator[None]:
    """Go on after the error of an unknown symbol; any other one passes."""
    try:
        yield
    except (NotConfigured, MarketUnavailable):
        raise
    except MarketError:
        return


def _names(symbol: str) -> list[str]:
    """Return Alpaca's names of a share, the likeliest first: with a dot before its class, then as its contracts' root.

    Its reference has no example of a class.
    """
    return list(dict.fromkeys((symbol.replace("-", "."), root_of(symbol))))


def _moment(text: str, contract: str) -> dt.datetime:
    """Return a time of Alpaca's, which has nanoseconds, as Python reads it."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise MarketUnavailable(f"Alpaca's answer for {contract} could not be read: the time {text!r}") from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)
