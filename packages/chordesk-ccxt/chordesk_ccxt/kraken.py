"""Kraken's wire of orders. cl_ord_id is the desk's id; Kraken keeps it unique among open orders alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from chordesk.plugins import OrderTicket, exact, plain

from .orders import State, VenueFill, VenueOrder, amount, day_end, moment_of, price_or_none, readable
from .venue import Pair, Venue, VenueRefused, VenueSilent

_KINDS = {"market": "market", "limit": "limit", "stop-loss": "stop", "stop-loss-limit": "stop_limit"}
_TERMS = {ours: theirs for theirs, ours in _KINDS.items()}
_STATES: Mapping[str, State] = {
    "pending": "open", "open": "open", "closed": "filled", "canceled": "cancelled", "expired": "expired"
}  # fmt: skip
_ENDS_SOON = dt.timedelta(seconds=10)  # an order of a day that ends within so long is not sent
_TRADES = 20  # of one question
_PAGE = 50
_MOST_PAGES = 40


class KrakenWire:
    days = True

    def __init__(self, venue: Venue) -> None:
        self._venue = venue
        self._numbers: dict[str, str] = {}  # Kraken's, by the desk's ids

    def find(self, ticket: OrderTicket) -> VenueOrder | None:
        """Look for an order among those that are open, then among those that ended: one that ends between the two
        questions is in the second list. One whose number is known is asked for by it."""
        client_id = str(ticket.order_id)
        if (number := self._numbers.get(client_id)) is not None:
            return self._one(self._result("QueryOrders", {"txid": number, "trades": "true"}))
        asked = {"cl_ord_id": client_id, "trades": "true"}
        for question, name in (("OpenOrders", "open"), ("ClosedOrders", "closed")):
            rows = self._result(question, asked).get(name)
            if not isinstance(rows, dict):
                raise VenueSilent(f"Kraken's list of {name} orders cannot be read")
            if rows:
                return self._one(rows)
        return None

    def _one(self, rows: Mapping[str, Any]) -> VenueOrder:
        if len(rows) != 1:
            raise VenueSilent(f"Kraken has {len(rows)} orders of one id", remedy="look at the orders at Kraken")
        ((number, row),) = rows.items()
        found = self._order(number, row)
        self._numbers[found.client_id] = number
        return found

    def place(self, ticket: OrderTicket, pair: Pair) -> str:
        asked = {
            "pair": pair.id,
            "type": ticket.side,
            "ordertype": _TERMS[ticket.order_type],
            "volume": plain(exact(ticket.quantity)),
            "cl_ord_id": str(ticket.order_id),
            "oflags": "fciq",  # the fee in money, not in the coin
        }
        first = ticket.stop_price if ticket.stop_price is not None else ticket.limit_price
        if first is not None:
            asked["price"] = plain(exact(first))
        if ticket.stop_price is not None and ticket.limit_price is not None:
            asked["price2"] = plain(exact(ticket.limit_price))
        if ticket.time_in_force == "ioc":
            asked["timeinforce"] = "IOC"
        elif ticket.time_in_force == "day" and ticket.order_type == "limit":
            now = dt.datetime.now(dt.UTC)
            if day_end(now) - now < _ENDS_SOON:
                raise VenueRefused("the day ends in some seconds, and the order with it")
            asked |= {"timeinforce": "GTD", "expiretm": str(int(day_end(now).timestamp()))}
        result = self._result("AddOrder", asked)
        with readable(self._venue):
            (number,) = result["txid"]
            return str(number)

    def cancel(self, order: VenueOrder) -> None:
        self._result("CancelOrder", {"txid": order.number})

    def fills(self, order: VenueOrder) -> list[VenueFill]:
        found: list[VenueFill] = []
        for at in range(0, len(order.trades), _TRADES):
            rows = self._result("QueryTrades", {"txid": ",".join(order.trades[at : at + _TRADES])})
            found += [self._fill(id_, row) for id_, row in rows.items()]
        if strange := [fill.id for fill in found if fill.number != order.number]:
            raise VenueSilent(f"Kraken answers with the trade {strange[0]} of another order than {order.number}")
        return found

    def open_orders(self) -> list[VenueOrder]:
        rows = self._result("OpenOrders", {"trades": "false"}).get("open")
        if not isinstance(rows, dict):
            raise VenueSilent("Kraken's list of open orders cannot be read")
        return [self._order(number, row) for number, row in rows.items()]

    def fills_since(self, at: dt.datetime, symbols: Iterable[str]) -> list[VenueFill]:
        found: dict[str, VenueFill] = {}
        for page in range(_MOST_PAGES):
            asked = {"start": f"{at.timestamp():.0f}", "ofs": str(page * _PAGE)}
            rows = self._result("TradesHistory", asked).get("trades")
            if not isinstance(rows, dict):
                raise VenueSilent("Kraken's list of trades cannot be read")
            found |= {id_: self._fill(id_, row) for id_, row in rows.items()}
            if len(rows) < _PAGE:
                return list(found.values())
        raise VenueSilent(f"Kraken's trades do not end: {len(found)} so far")

    def orders_of(self, numbers: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for at in range(0, len(numbers), _PAGE):
            rows = self._result("QueryOrders", {"txid": ",".join(numbers[at : at + _PAGE])})
            found |= {number: str(row["cl_ord_id"]) for number, row in rows.items() if row.get("cl_ord_id")}
        return found

    def trouble(self) -> str | None:
        return None

    def _result(self, method: str, asked: Mapping[str, str]) -> dict[str, Any]:
        answer = self._venue.ask(f"privatePost{method}", dict(asked))
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, dict):
            raise VenueSilent(f"Kraken's answer to {method} cannot be read")
        return result

    def _order(self, number: str, row: Mapping[str, Any]) -> VenueOrder:
        with readable(self._venue):
            descr, filled, quantity = row["descr"], amount(row["vol_exec"]), amount(row["vol"])
            kind = _KINDS.get(descr["ordertype"], str(descr["ordertype"]))
            first, second = price_or_none(descr["price"]), price_or_none(descr["price2"])
            limit, stop = {"limit": (first, None), "stop": (None, first), "stop_limit": (second, first)}.get(
                kind, (None, None)
            )
            state = _STATES[row["status"]]
            if state == "filled" and filled != quantity:
                state = "cancelled"
            return VenueOrder(
                number, str(row.get("cl_ord_id") or number), self._venue.symbol_of(descr["pair"]), descr["type"],
                quantity, kind, limit, stop, state, filled, moment_of(amount(row["opentm"]) * 1000),
                tuple(map(str, row.get("trades") or ())),
            )  # fmt: skip

    def _fill(self, id_: str, row: Mapping[str, Any]) -> VenueFill:
        with readable(self._venue):
            symbol = self._venue.symbol_of(row["pair"])
            # With `fciq`, and where a person's order leaves it to Kraken, the fee is in the second currency.
            return VenueFill(
                id_, row["ordertxid"], symbol, row["type"], amount(row["vol"]), amount(row["price"]),
                amount(row["fee"]), symbol.partition("-")[2], moment_of(Decimal(str(row["time"])) * 1000),
            )  # fmt: skip
