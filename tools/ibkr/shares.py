"""Shares by the desk's symbol and as IBKR's contracts, and the currency that an account is kept in. Pure.

An order is for shares in the account's own currency: of others IBKR would lend the money, and the account would owe it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ib_async.contract import Contract

from chordesk.models.answers import spelled
from chordesk.models.errors import MarketError
from chordesk.models.exchanges import EXCHANGES, HOME, exchange_of
from chordesk.tools.ibkr.inbox import GatewaySilent

# IBKR's names of exchanges. One that is wrong finds no share, and orders nothing.
THERE: Mapping[str, str] = {
    "XTSE": "TSE", "XLON": "LSE", "XETR": "IBIS", "XPAR": "SBF", "XAMS": "AEB", "XMIL": "BVME", "XMAD": "BM",
    "XSTO": "SFB", "XTKS": "TSEJ", "XHKG": "SEHK", "XSES": "SGX", "XASX": "ASX",
}  # fmt: skip
_HERE = {there: code for code, there in THERE.items()}
_DOLLAR = "USD"


class NotOrderable(ValueError):
    """An order that is not sent, with the reason."""


def wanted(symbol: str, money: str) -> Contract:
    """Return what to ask IBKR for. money: the account's currency. Raises NotOrderable."""
    try:
        row = exchange_of(symbol)
    except MarketError as error:
        raise NotOrderable(str(error.args[0])) from None
    if row.code != HOME and row.code not in THERE:
        raise NotOrderable(f"{symbol} is of {row.place}, where this broker takes no orders")
    if row.currency != money:
        raise NotOrderable(f"{symbol} is in {row.currency}, and the account is kept in {money}")
    primary = THERE.get(row.code, "")
    return Contract(
        secType="STK", symbol=symbol_there(symbol), exchange="SMART", primaryExchange=primary, currency=row.currency
    )


def symbol_there(symbol: str) -> str:
    """Return a symbol as IBKR writes it: BRK.B is BRK B, SAP.DE is SAP, 0700.HK is 700, VOLV-B.ST is VOLV.B."""
    row = exchange_of(symbol)
    if row.code == HOME:
        return symbol.replace(".", " ")
    stem = symbol.rpartition(".")[0].replace("-", ".")
    return stem.lstrip("0") if row.code == "XHKG" else stem


def symbol_here(contract: Any) -> str:
    """Return the desk's name of a contract, whose primary exchange is known unless it is in dollars. An option is its
    OCC symbol; what is neither share nor option has its type before its name."""
    if contract.secType == "OPT":
        return str(contract.localSymbol).replace(" ", "")
    if contract.secType != "STK":
        return f"{contract.secType} {contract.localSymbol or contract.symbol}"
    if contract.currency == _DOLLAR:
        return spelled(str(contract.symbol))
    code = _HERE.get(contract.primaryExchange)
    if code is None:
        return f"{contract.symbol} {contract.primaryExchange or contract.currency}"
    return spelled(f"{str(contract.symbol).replace('.', '-')}.{EXCHANGES[code].suffixes[0]}")


def chosen(symbol: str, asked: Contract, found: Sequence[Any]) -> Any:
    """Return the one contract that a symbol names. Raises NotOrderable."""
    rows = {row.contract.conId: row for row in found if row.contract.currency == asked.currency}
    if asked.primaryExchange:
        rows = {key: row for key, row in rows.items() if row.contract.primaryExchange == asked.primaryExchange}
    if not rows:
        raise NotOrderable(f"IBKR knows no share {symbol} in {asked.currency}")
    if len(rows) > 1:
        places = ", ".join(sorted({str(row.contract.primaryExchange) for row in rows.values()}))
        raise NotOrderable(f"{symbol} in {asked.currency} is {len(rows)} shares at IBKR ({places}), and none is chosen")
    row = next(iter(rows.values()))
    if row.priceMagnifier not in (0, 1):
        raise NotOrderable(f"IBKR quotes {symbol} in units of which {row.priceMagnifier} are one {asked.currency}")
    return row


def money_of(values: Mapping[tuple[str, str], str]) -> str:
    """Return the currency that an account is kept in: that of its net worth, else the one whose rate is 1, else the
    only one that it has cash in, else dollars among others. Raises GatewaySilent where nothing tells it."""
    worth = {code for key, code in values if key == "NetLiquidation"} - {"", "BASE"}
    rated = {code for (key, code), rate in values.items() if key == "ExchangeRate" and _one(rate)} - {"", "BASE"}
    cash = {code for key, code in values if key == "CashBalance"} - {"", "BASE"}
    for found in (worth, rated, cash, cash & {_DOLLAR}):
        if len(found) == 1:
            return found.pop()
    raise GatewaySilent("IBKR tells no currency of the account", remedy="look at the account in TWS")


def _one(rate: str) -> bool:
    try:
        return Decimal(rate) == 1
    except ArithmeticError:
        return False
