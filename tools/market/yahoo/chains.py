"""Option chains of Yahoo, as they are now: quotes, volume and open interest, without Greeks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from chordesk.models.contracts import OptionChain, parse_contract
from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.market import Quote
from chordesk.tools.market.aged_cache import AgedCache, Kept
from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.market.protocol import Shares
from chordesk.tools.market.yahoo import shapes
from chordesk.tools.market.yahoo.shapes import Section
from chordesk.tools.market.yahoo.wire import YahooWire

QUOTE_AGE = dt.timedelta(minutes=1)
OPTIONS_AGE = dt.timedelta(minutes=30)


class YahooChains:
    """OptionMarket of Yahoo. share_of: the symbol of the share that a contract's root names, such as BRK.B of BRKB."""

    name = "yahoo"

    def __init__(self, shares: Shares, wire: YahooWire, cache: AgedCache, share_of: Callable[[str], str]) -> None:
        self._shares, self._wire, self._cache, self._share_of = shares, wire, cache, share_of

    def option_quote(self, contract: str) -> Quote:
        """Return the price midway between bid and ask, at the time of the fetch; the last trade where there are not
        both."""
        found = parse_contract(contract)
        if found is None:
            raise MarketError(f"{contract} is no OCC symbol of an option contract")
        expiry = found.expiry.isoformat()
        kept = self._contracts(self._share_of(found.underlying), expiry)
        rows = [row for row in kept.value if row["contract"] == contract]
        if any(row != rows[0] for row in rows):
            raise MarketError(f"Yahoo lists {contract} {len(rows)} times, with differing prices")
        priced = shapes.contract_price(rows[0]) if rows else None
        if priced is None:
            raise MarketError(f"unknown contract {contract}: Yahoo has no price of it")
        price, traded = priced
        offers = {name: rows[0][name] or None for name in ("bid", "ask")} if traded is None else {}
        at = kept.at if traded is None else dt.datetime.fromisoformat(traded)
        at = min(at, self._shares.clock.now()).astimezone(NEW_YORK)
        return Quote.model_validate({"symbol": contract, "price": price, "at": at, "source": self.name, **offers})

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Return the contracts that Yahoo lists now. Raises NotConfigured under a clock that stands on a past day."""
        if self._shares.clock.day is not None:
            raise NotConfigured("not available: Yahoo has the option chains of now alone, none of a past day")
        expiries: list[str] = self._cache.get(
            f"expiries-{symbol}", OPTIONS_AGE, lambda: list(self._wire.expiries(symbol))
        ).value
        if not expiries:
            raise MarketError(f"Yahoo has no options of {symbol}")
        wanted = [day for day in expiries if first.isoformat() <= day <= last.isoformat()]
        kept = [self._contracts(symbol, day) for day in wanted]
        listed = [(row, shapes.chain_row(row)) for one in kept for row in one.value]
        at = min((one.at for one in kept), default=self._shares.clock.now()).astimezone(NEW_YORK)
        rows = tuple(row for _, row in listed if row is not None)
        unread = tuple(str(row["contract"]) for row, found in listed if found is None)
        spot = self._shares.quote(symbol).price
        return OptionChain(symbol, at, self.name, spot, rows, unread, self._shares.dividend_yield(symbol))

    def _contracts(self, underlying: str, expiry: str) -> Kept:
        key = f"chain-{underlying}-{expiry}"
        return self._cache.get(key, QUOTE_AGE, lambda: self._fetch_contracts(underlying, expiry))

    def _fetch_contracts(self, underlying: str, expiry: str) -> list[Section]:
        if expiry not in self._wire.expiries(underlying):
            return []
        return shapes.contracts_of(*self._wire.chain(underlying, expiry))
