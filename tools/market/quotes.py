"""Quotes of anything that can be held: a share or an option contract."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from chordesk.models.contracts import OptionChain, parse_contract, root_of
from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.market import Quote
from chordesk.tools.market.protocol import ChainSource, MarketData, OptionSource

AVERAGE_COST = "average cost"
LEAST_PRICE = 0.0001


def quote_of(market: MarketData, symbol: str) -> Quote:
    """Return the last price per share of a symbol or an OCC contract. Raises MarketError when there is none,
    NotConfigured when it is a contract and the market prices no contracts."""
    if parse_contract(symbol) is None:
        return market.quote(symbol)
    if not isinstance(market, OptionSource):
        raise NotConfigured(
            f"not available: the {market.name} market has no option quotes; configure DESK_MARKET=yahoo for them"
        )
    return market.option_quote(symbol)


def chain_of(market: MarketData, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
    """Return the contracts on a symbol that expire within these days. Raises MarketError when there are none,
    NotConfigured when the market has no chains."""
    if not isinstance(market, ChainSource):
        modelled = ", or DESK_REPLAY_OPTIONS=modelled for modelled ones" if market.clock.day is not None else ""
        reason = f"the {market.name} market has no option chains; configure DESK_MARKET=yahoo for them{modelled}"
        raise NotConfigured(f"not available: {reason}")
    return market.chain(symbol, first, last)


def share_of(market: MarketData, root: str) -> str:
    """Return the symbol of the share whose contracts have a root, such as BRK.B of BRKB, as far as the market's listed
    universe knows it; else the root itself, which most symbols are."""
    try:
        listed = market.universe("sp500")
    except DeskError:
        return root
    return next((one.symbol for one in listed if one.symbol != root and root_of(one.symbol) == root), root)


def met_by(quote: Quote, side: str) -> Quote:
    """Return the quote as an order meets it, exactly: the ask for a buy, the bid for a sale; as it is where its source
    gives neither. Raises MarketError where it gives the other one alone."""
    if quote.bid is None and quote.ask is None:
        return quote
    name, met = ("ask", quote.ask) if side == "buy" else ("bid", quote.bid)
    if met is None:
        raise MarketError(f"{quote.symbol} has no {name}")
    return quote.model_copy(update={"price": met, "low": met, "high": met})


def at_cost(symbol: str, average_cost: float, now: dt.datetime) -> Quote:
    """Return what a position cost on average, per share, in place of a price that is not known, and labelled so."""
    return Quote(symbol=symbol, price=max(average_cost, LEAST_PRICE), at=now, source=AVERAGE_COST)


@dataclass(frozen=True, slots=True)
class Quotes:
    """Market as a source of prices for positions, shares and contracts alike."""

    market: MarketData

    def quote(self, symbol: str) -> Quote:
        return quote_of(self.market, symbol)
