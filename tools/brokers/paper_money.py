"""The money of the paper broker's fills and legs: their currency, its rate at their time, and their duties."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError
from chordesk.models.money import FxRate, Money
from chordesk.models.orders import BrokerFill, OrderTicket, Settlement
from chordesk.models.settings import Settings
from chordesk.tools.books import Books
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import account_money
from chordesk.tools.market.fx import kind_of, last_known, listed_in, rate_into
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.rates import cost_rate, duties_of, exit_rate, rate_fields


class PaperMoney:
    """What an account's market says of currencies, and what is done where it says nothing."""

    def __init__(self, store: Store, market: MarketData, settings: Settings, account: str) -> None:
        self._store, self._market, self._settings, self._account = store, market, settings, account

    def rate_at(self, traded: str, at: dt.datetime, *, opens: bool) -> FxRate | None:
        """Return the rate of the currency of what is traded, None where it is the account's. What gives a position back
        takes the newest, however old, else that of its cost. Raises MarketError where there is none."""
        money, currency = self.money(), listed_in(self._market, traded)
        if currency == money.base:
            return None
        try:
            return rate_into(self._market, currency, money, at)
        except MarketError:
            old = None if opens else self._old_rate(currency, money, traded, at)
            if old is None:
                raise
            return old

    def money(self) -> Money:
        with self._store.read() as session:
            return account_money(session, self._settings, self._account)

    def _old_rate(self, currency: str, money: Money, traded: str, at: dt.datetime) -> FxRate | None:
        if (newest := last_known(self._market, currency, money, at)) is not None:
            return newest
        with self._store.read() as session:
            return exit_rate(session, self._account, traded, money.base)

    def rated_legs(self, legs: Iterable[Settlement], books: Books) -> Iterator[Settlement]:
        """Yield legs with the rate of their currency at their time, where that is not the account's; one without any
        rate waits. What only gets another name keeps the rate that it was bought at, so that no cash moves."""
        money, kept = self.money(), None
        for leg in legs:
            currency = listed_in(self._market, leg.symbol)
            if currency == money.base:
                yield leg
                continue
            base = books.bases.get(leg.symbol)
            if leg.kind == "converted":
                if base is not None:
                    kept = cost_rate(currency, money.base, books.held[leg.symbol][1], base.rate, leg.at)
                fx = kept
            else:
                try:
                    fx = rate_into(self._market, currency, money, leg.at)
                except MarketError:
                    fx = self._old_rate(currency, money, leg.symbol, leg.at)
            if fx is not None:
                yield leg.model_copy(update=rate_fields(fx))

    def taxed(
        self,
        ticket: OrderTicket,
        booked: Sequence[BrokerFill],
        fresh: Sequence[BrokerFill],
        rates: Sequence[FxRate | None],
    ) -> list[BrokerFill]:
        """Return the fills of an order with their duties; contracts have none here."""
        if ticket.contract is not None:
            return list(fresh)
        kind, moved, found = kind_of(self._market, ticket.symbol), _moved(booked), []
        for fill, fx in zip(fresh, rates, strict=True):
            after = moved + _moved([fill])
            duties = duties_of(ticket.symbol, kind, ticket.side, moved, after, fx)
            found.append(fill.model_copy(update={"duties": duties}) if duties else fill)
            moved = after
        return found


def rated(fill: BrokerFill, fx: FxRate | None) -> BrokerFill:
    return fill if fx is None else fill.model_copy(update=rate_fields(fx))


def _moved(fills: Iterable[BrokerFill]) -> Decimal:
    return sum((exact(fill.quantity) * exact(fill.price) for fill in fills), Decimal(0))
