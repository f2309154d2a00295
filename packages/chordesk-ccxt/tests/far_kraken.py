"""Kraken's REST interface on loopback, as its documents and ccxt 4.5.90 have it. `python far_kraken.py` serves ten
pairs and prints its address."""

from __future__ import annotations

import base64
import hashlib
import hmac
from decimal import Decimal
from typing import Any

from aiohttp import web
from far_venue import FarRow, FarVenue, Row, at_midnight, milliseconds, wait_for_ever

COINS = {"BTC": "XXBT", "ETH": "XETH", "DOGE": "XXDG", "XRP": "XXRP", "LTC": "XLTC", "USD": "ZUSD", "EUR": "ZEUR"}
OURS = {theirs: ours for ours, theirs in COINS.items()} | {"XBT": "BTC", "XDG": "DOGE"}
KINDS = {"market": "market", "limit": "limit", "stop-loss": "stop", "stop-loss-limit": "stop_limit"}
TERMS = {ours: theirs for theirs, ours in KINDS.items()}
STATES = {"open": "open", "filled": "closed", "cancelled": "canceled", "expired": "expired"}
CAP = 720  # candles, the newest ones whatever is asked for
PAGE = 50  # orders or trades of one answer


def good(result: Any) -> tuple[int, Row]:
    return 200, {"error": [], "result": result}


def bad(error: str) -> tuple[int, Row]:
    return 200, {"error": [error]}


class FarKraken(FarVenue):
    title, money = "Kraken", "USD"

    def trade_id(self, number: int) -> str:
        return f"TRADE{number}-KRAKN-{number:06d}"

    def busy(self) -> Row:
        return {"error": ["EAPI:Rate limit exceeded"]}

    def places_order(self, method: str, path: str) -> bool:
        return path.endswith("/private/AddOrder")

    def client_id(self, values: Row) -> str:
        return str(values.get("cl_ord_id"))

    def no_money(self) -> tuple[int, Row]:
        return bad("EOrder:Insufficient funds")

    def unauthorized(self, request: web.Request, path: str, values: Row, body: str) -> tuple[int, Row] | None:
        if request.headers.get("API-Key") != self.key:
            return bad("EAPI:Invalid key")
        digest = hashlib.sha256((str(values.get("nonce")) + body).encode()).digest()
        signed = hmac.new(base64.b64decode(self.secret), path.encode() + digest, hashlib.sha512)
        if request.headers.get("API-Sign") != base64.b64encode(signed.digest()).decode():
            return bad("EAPI:Invalid signature")
        with self.lock:
            nonce = int(values["nonce"])
            if nonce <= self.last_nonce:
                return bad("EAPI:Invalid nonce")
            self.last_nonce = nonce
        return None

    def answer(self, request: web.Request, path: str, values: Row, body: str) -> tuple[int, Any]:
        name = path.rpartition("/")[2]
        if "/public/" in path:
            found = getattr(self, f"public_{name}", None)
            return found(values) if found else bad("EGeneral:Unknown method")
        if (refusal := self.unauthorized(request, path, values, body)) is not None:
            return refusal
        with self.lock:
            found = getattr(self, f"private_{name}", None)
            return found(values) if found else bad("EGeneral:Unknown method")

    # Public

    def public_Time(self, values: Row) -> tuple[int, Row]:
        return good({"unixtime": int(self.now().timestamp()), "rfc1123": ""})

    def public_Assets(self, values: Row) -> tuple[int, Row]:
        coins = {coin for symbol in self.prices for coin in symbol.split("-")}
        return good(
            {
                COINS.get(coin, coin): {"aclass": "currency", "altname": coin, "decimals": 10, "display_decimals": 5,
                                        "status": "enabled"}
                for coin in coins
            }
        )  # fmt: skip

    def public_AssetPairs(self, values: Row) -> tuple[int, Row]:
        return good({self.pair_id(symbol): self._pair(symbol) for symbol in self.prices})

    def _pair(self, symbol: str) -> Row:
        base, quote = symbol.split("-")
        status = "cancel_only" if symbol in self.delisted else "online"
        return {
            "altname": f"{base}{quote}".replace("BTC", "XBT"), "wsname": f"{base}/{quote}", "aclass_base": "currency",
            "base": COINS.get(base, base), "aclass_quote": "currency", "quote": COINS.get(quote, quote), "lot": "unit",
            "cost_decimals": 5, "pair_decimals": 2, "lot_decimals": 8, "lot_multiplier": 1, "leverage_buy": [],
            "leverage_sell": [], "fees": [[0, 0.26]], "fees_maker": [[0, 0.16]], "fee_volume_currency": "ZUSD",
            "margin_call": 80, "margin_stop": 40, "ordermin": "0.00005", "costmin": "0.5", "tick_size": str(self.tick),
            "status": status,
        }  # fmt: skip

    def pair_id(self, symbol: str) -> str:
        base, quote = symbol.split("-")
        return f"{COINS.get(base, base)}{COINS.get(quote, quote)}"

    def symbol_of(self, pair: str) -> str:
        return next(symbol for symbol in self.prices if pair in (self.pair_id(symbol), self._pair(symbol)["altname"]))

    def public_OHLC(self, values: Row) -> tuple[int, Row]:
        symbol = self.symbol_of(values["pair"])
        if values.get("interval") != "1440":
            return good({values["pair"]: [], "last": 0})
        rows = [
            [
                int(at_midnight(day).timestamp()),
                *(f"{one:.5f}" for one in (o, h, low, c)),
                f"{c:.5f}",
                f"{volume:.8f}",
                7,
            ]
            for day, o, h, low, c, volume in self.candles.get(symbol, [])
        ]
        since = int(values.get("since", 0))
        kept = [row for row in rows[-CAP:] if row[0] > since]
        return good({values["pair"]: kept, "last": kept[-1][0] if kept else 0})

    def public_Ticker(self, values: Row) -> tuple[int, Row]:
        found = {}
        for pair in values["pair"].split(","):
            price = str(self.prices[self.symbol_of(pair)])
            found[pair] = {name: [price, "1", "1"] for name in "abcvplh"} | {"t": [1, 1], "o": price}
        return good(found)

    # The account

    def private_BalanceEx(self, values: Row) -> tuple[int, Row]:
        rows = {
            COINS.get(coin, coin): {"balance": str(amount), "hold_trade": "0"} for coin, amount in self.balances.items()
        }
        if self.missing:
            rows[COINS[self.money]] = {"hold_trade": "0"}
        return good(rows)

    def private_GetApiKeyInfo(self, values: Row) -> tuple[int, Row]:
        if self.rights is None:
            return bad("EGeneral:Unknown method")
        return good({"apiKeyName": "desk", "permissions": self.rights})

    def place(self, values: Row) -> tuple[int, Row]:
        if values["ordertype"] not in KINDS:
            return bad("EGeneral:Invalid arguments:ordertype")
        kind = KINDS[values["ordertype"]]
        if self.blocked:
            return bad("EGeneral:Temporary lockout")
        symbol = self.symbol_of(values["pair"])
        quantity = Decimal(values["volume"])
        if quantity % Decimal("0.00000001") or quantity < Decimal("0.00005"):
            return bad("EOrder:Order minimum not met")
        first, second = (Decimal(values[name]) if name in values else None for name in ("price", "price2"))
        lasts = {"IOC": "ioc", "GTD": "day", "GTC": "gtc"}[values.get("timeinforce", "GTC")]
        if kind == "market":
            lasts = "day"
        limit, stop = {"limit": (first, None), "stop": (None, first), "stop_limit": (second, first)}.get(
            kind, (None, None)
        )
        for price in (limit, stop):
            if price is not None and price % self.tick:
                return bad("EOrder:Invalid price")
        row = FarRow(self.number(), values["cl_ord_id"], symbol, values["type"], quantity, kind, lasts, limit, stop)
        if any(one.client_id == row.client_id and one.state == "open" for one in self.orders.values()):
            return bad("EOrder:cl_ord_id is not unique among open orders")
        self.take(row)
        return good({"descr": {"order": f"{row.side} {row.quantity}"}, "txid": [row.number]})

    def private_CancelOrder(self, values: Row) -> tuple[int, Row]:
        row = self.orders.get(values.get("txid", ""))
        if row is None or row.state != "open":
            return bad("EOrder:Unknown order")
        if not self.slow:
            row.state = "cancelled"
        return good({"count": 1, "pending": self.slow})

    def private_OpenOrders(self, values: Row) -> tuple[int, Row]:
        return good({"open": self._rows(values, lambda row: row.state == "open")})

    def private_ClosedOrders(self, values: Row) -> tuple[int, Row]:
        rows = {} if self.closed_lags else self._rows(values, lambda row: row.state != "open")
        start = int(values.get("ofs", 0))
        page = dict(list(rows.items())[start : start + PAGE])
        return good({"closed": page, "count": len(rows)})

    def _rows(self, values: Row, wanted: Any) -> dict[str, Row]:
        client_id = values.get("cl_ord_id")
        if client_id and self.shown:
            shown = self.by_client(self.shown)
            return {shown.number: self._seen(shown)} if shown is not None and wanted(shown) else {}
        return {
            row.number: self._seen(row)
            for row in self.orders.values()
            if wanted(row) and client_id in (None, row.client_id)
        }

    def private_QueryOrders(self, values: Row) -> tuple[int, Row]:
        numbers = [self.by_client(self.shown).number] if self.shown else values["txid"].split(",")  # type: ignore[union-attr]
        found = {number: self._seen(self.orders[number]) for number in numbers if number in self.orders}
        return good(found) if found else bad("EOrder:Invalid order")

    def _seen(self, row: FarRow) -> Row:
        trades = [] if self.lags else [trade.id for trade in row.trades]
        descr = {
            "pair": self._pair(row.symbol)["altname"],
            "type": row.side,
            "ordertype": TERMS[row.kind],
            "leverage": "none",
        }
        descr["price"] = str(row.stop if row.kind in ("stop", "stop_limit") else row.limit or 0)
        descr["price2"] = str(row.limit if row.kind == "stop_limit" else 0)
        return {
            "cl_ord_id": row.client_id, "status": STATES[row.state], "opentm": row.opened.timestamp(), "descr": descr,
            "vol": f"{row.quantity:.8f}", "vol_exec": f"{row.filled:.8f}", "cost": f"{row.paid:.5f}",
            "fee": str(sum((trade.fee for trade in row.trades), Decimal(0))), "trades": trades, "misc": "",
            "oflags": "fciq",
        }  # fmt: skip

    def private_QueryTrades(self, values: Row) -> tuple[int, Row]:
        wanted = values["txid"].split(",")
        if len(wanted) > 20:
            return bad("EGeneral:Invalid arguments:txid")
        found = {
            trade.id: self._trade(row, trade)
            for row in self.orders.values()
            for trade in row.trades
            if trade.id in wanted
        }
        return good(found)

    def private_TradesHistory(self, values: Row) -> tuple[int, Row]:
        start = float(values.get("start", 0))
        rows = [(row, trade) for row in self.orders.values() for trade in row.trades if trade.at.timestamp() > start]
        rows = [] if self.lags else sorted(rows, key=lambda pair: pair[1].at, reverse=True)
        offset = int(values.get("ofs", 0))
        page = {trade.id: self._trade(row, trade) for row, trade in rows[offset : offset + PAGE]}
        return good({"trades": page, "count": len(rows)})

    def _trade(self, row: FarRow, trade: Any) -> Row:
        return {
            "ordertxid": row.number, "pair": self.pair_id(row.symbol), "time": milliseconds(trade.at) / 1000,
            "type": row.side, "ordertype": TERMS[row.kind], "price": f"{trade.price:.5f}",
            "cost": f"{trade.price * trade.quantity:.5f}", "fee": str(trade.fee), "vol": f"{trade.quantity:.8f}",
            "margin": "0", "misc": "",
        }  # fmt: skip


TEN = ("BTC", "ETH", "SOL", "XRP", "ADA", "DOGE", "AVAX", "DOT", "LINK", "LTC")

if __name__ == "__main__":
    far = FarKraken()
    for place, coin in enumerate(TEN):
        far.days(f"{coin}-USD", 730, price=100.0 + 17 * place)
    wait_for_ever(far)
