"""Binance's wire of orders. newClientOrderId is the desk's id, with a mark where the order is of a day: Binance knows
no such order, and the desk ends it at the first look after midnight UTC."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chordesk.plugins import OrderTicket, exact, plain

from .orders import State, VenueFill, VenueOrder, amount, moment_of, price_or_none, readable
from .venue import Pair, Venue, VenueRefused, VenueSilent

_KINDS = {"MARKET": "market", "LIMIT": "limit", "STOP_LOSS": "stop", "STOP_LOSS_LIMIT": "stop_limit"}
_TERMS = {ours: theirs for theirs, ours in _KINDS.items()}
_STATES: Mapping[str, State] = {
    "NEW": "open", "PENDING_NEW": "open", "PARTIALLY_FILLED": "open", "PENDING_CANCEL": "open", "FILLED": "filled",
    "CANCELED": "cancelled", "REJECTED": "rejected", "EXPIRED": "cancelled", "EXPIRED_IN_MATCH": "cancelled",
}  # fmt: skip
_OF_DAY = re.compile(r"([0-9a-f]{32})-day")
_UNKNOWN = re.compile(r"does not exist", re.IGNORECASE)
_PAGE = 1000
_MOST_PAGES = 20


class BinanceWire:
    days = False

    def __init__(self, venue: Venue) -> None:
        self._venue = venue

    def find(self, ticket: OrderTicket) -> VenueOrder | None:
        try:
            return self._order(self._ask("privateGetOrder", self._by(ticket)))
        except VenueRefused as refused:
            if _UNKNOWN.search(str(refused)):
                return None
            raise

    def _by(self, ticket: OrderTicket) -> dict[str, str]:
        return {"symbol": self._venue.pairs()[ticket.symbol].id, "origClientOrderId": client_id_of(ticket)}

    def place(self, ticket: OrderTicket, pair: Pair) -> str:
        if pair.types and _TERMS[ticket.order_type] not in pair.types:
            raise VenueRefused(f"Binance takes no {ticket.order_type.replace('_', ' ')} order in {pair.symbol}")
        asked = {
            "symbol": pair.id,
            "side": ticket.side.upper(),
            "type": _TERMS[ticket.order_type],
            "quantity": plain(exact(ticket.quantity)),
            "newClientOrderId": client_id_of(ticket),
            "newOrderRespType": "RESULT",
        }
        if ticket.limit_price is not None:
            asked |= {"price": plain(exact(ticket.limit_price))}
            asked |= {"timeInForce": "IOC" if ticket.time_in_force == "ioc" else "GTC"}
        if ticket.stop_price is not None:
            asked["stopPrice"] = plain(exact(ticket.stop_price))
        answer = self._ask("privatePostOrder", asked)
        with readable(self._venue):
            return str(int(answer["orderId"]))

    def cancel(self, order: VenueOrder) -> None:
        self._ask("privateDeleteOrder", {"symbol": self._venue.pairs()[order.symbol].id, "orderId": order.number})

    def fills(self, order: VenueOrder) -> list[VenueFill]:
        found = self._fills(order.symbol, {"orderId": order.number})
        if strange := [fill.id for fill in found if fill.number != order.number]:
            raise VenueSilent(f"Binance answers with the trade {strange[0]} of another order than {order.number}")
        return found

    def open_orders(self) -> list[VenueOrder]:
        rows = self._venue.ask("privateGetOpenOrders", {})
        if not isinstance(rows, list):
            raise VenueSilent("Binance's list of open orders cannot be read")
        return [self._order(row) for row in rows]

    def fills_since(self, at: dt.datetime, symbols: Iterable[str]) -> list[VenueFill]:
        start = str(int(at.timestamp() * 1000))
        return [fill for symbol in sorted(set(symbols)) for fill in self._fills(symbol, {"startTime": start})]

    def _fills(self, symbol: str, asked: Mapping[str, str]) -> list[VenueFill]:
        """Return a pair's fills, page by page: a page begins with the trade after the last one of the page before."""
        found: dict[str, VenueFill] = {}
        wanted = {"symbol": self._venue.pairs()[symbol].id, "limit": str(_PAGE), **asked}
        for _ in range(_MOST_PAGES):
            rows = self._venue.ask("privateGetMyTrades", wanted)
            if not isinstance(rows, list):
                raise VenueSilent("Binance's list of trades cannot be read")
            found |= {fill.id: fill for fill in map(self._fill, rows)}
            if len(rows) < _PAGE:
                return list(found.values())
            wanted.pop("startTime", None)
            wanted["fromId"] = str(max(map(int, found)) + 1)
        raise VenueSilent(f"Binance's trades of {symbol} do not end: {len(found)} so far")

    def orders_of(self, numbers: Sequence[str]) -> dict[str, str]:
        return {}

    def client_ids(self, symbol: str, since: dt.datetime) -> dict[str, str]:
        """Return the desk's ids by Binance's numbers, of a pair's orders of late."""
        start = str(int(since.timestamp() * 1000))
        asked = {"symbol": self._venue.pairs()[symbol].id, "startTime": start, "limit": str(_PAGE)}
        rows = self._venue.ask("privateGetAllOrders", asked)
        if not isinstance(rows, list):
            raise VenueSilent("Binance's list of orders cannot be read")
        return {order.number: order.client_id for order in map(self._order, rows)}

    def trouble(self) -> str | None:
        if self._venue.play:
            return None
        told = self._venue.ask("sapiGetBnbBurn", {})
        if isinstance(told, dict) and told.get("spotBNBBurn") is False:
            return None
        return "Binance takes the fees in BNB, which no fill could be booked with: switch that off in its account page"

    def _ask(self, method: str, asked: Mapping[str, str]) -> dict[str, Any]:
        answer = self._venue.ask(method, dict(asked))
        if not isinstance(answer, dict):
            raise VenueSilent("an answer of Binance cannot be read")
        return answer

    def _order(self, row: Mapping[str, Any]) -> VenueOrder:
        with readable(self._venue):
            kind = _KINDS.get(row["type"], str(row["type"]))
            return VenueOrder(
                str(int(row["orderId"])), _desk_id(str(row["clientOrderId"])), self._venue.symbol_of(row["symbol"]),
                row["side"].lower(), amount(row["origQty"]), kind, price_or_none(row["price"]),
                price_or_none(row["stopPrice"]), _STATES[row["status"]], amount(row["executedQty"]),
                moment_of(amount(row["time"])),
            )  # fmt: skip

    def _fill(self, row: Mapping[str, Any]) -> VenueFill:
        with readable(self._venue):
            return VenueFill(
                str(int(row["id"])), str(int(row["orderId"])), self._venue.symbol_of(row["symbol"]),
                "buy" if row["isBuyer"] else "sell", amount(row["qty"]), amount(row["price"]),
                amount(row["commission"]), str(row["commissionAsset"]), moment_of(amount(row["time"])),
            )  # fmt: skip


def client_id_of(ticket: OrderTicket) -> str:
    """Return the id at Binance, of 36 characters at most."""
    return f"{ticket.order_id.hex}-day" if ticket.time_in_force == "day" else str(ticket.order_id)


def _desk_id(client_id: str) -> str:
    found = _OF_DAY.fullmatch(client_id)
    return str(uuid.UUID(found[1])) if found else client_id
