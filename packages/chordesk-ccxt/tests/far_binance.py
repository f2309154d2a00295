"""Binance's REST interface on loopback, as its documents and ccxt 4.5.90 have it."""

from __future__ import annotations

import hashlib
import hmac
import json
from decimal import Decimal
from typing import Any

from aiohttp import web
from far_venue import FarRow, FarVenue, Row, Trade, at_midnight, milliseconds, wait_for_ever

KINDS = {"MARKET": "market", "LIMIT": "limit", "STOP_LOSS": "stop", "STOP_LOSS_LIMIT": "stop_limit"}
TERMS = {ours: theirs for theirs, ours in KINDS.items()}
STEP = Decimal("0.00001")


def bad(code: int, message: str, status: int = 400) -> tuple[int, Row]:
    return status, {"code": code, "msg": message}


class FarBinance(FarVenue):
    title, money = "Binance", "USDT"

    def __init__(self) -> None:
        super().__init__()
        self.rights = ["enableReading", "enableSpotAndMarginTrading"]
        self.bnb_burn = False

    def trade_id(self, number: int) -> str:
        return str(90_000_000 + number)

    def number(self) -> str:
        return str(10_000_000 + len(self.orders) + 1)

    def busy(self) -> Row:
        return {"code": -1003, "msg": "Too much request weight used"}

    def places_order(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/order")

    def client_id(self, values: Row) -> str:
        """Return the desk's id: the broker writes it without hyphens, and marks an order of a day."""
        return str(values.get("newClientOrderId"))

    def no_money(self) -> tuple[int, Row]:
        return bad(-2010, "Account has insufficient balance for requested action.")

    def unauthorized(self, request: web.Request, path: str, values: Row, body: str) -> tuple[int, Row] | None:
        if request.headers.get("X-MBX-APIKEY") != self.key:
            return bad(-2014, "API-key format invalid.", 401)
        query = body if request.method == "POST" else request.rel_url.raw_query_string
        signed, _, signature = query.rpartition("&signature=")
        if hmac.new(self.secret.encode(), signed.encode(), hashlib.sha256).hexdigest() != signature:
            return bad(-1022, "Signature for this request is not valid.")
        if abs(int(values["timestamp"]) - milliseconds(self.now())) > int(values.get("recvWindow", 5000)):
            return bad(-1021, "Timestamp for this request is outside of the recvWindow.")
        return None

    def answer(self, request: web.Request, path: str, values: Row, body: str) -> tuple[int, Any]:
        name = path.rpartition("/")[2]
        if (found := getattr(self, f"public_{name.replace('24hr', 'day')}", None)) is not None:
            return found(values)  # type: ignore[no-any-return]
        if (refusal := self.unauthorized(request, path, values, body)) is not None:
            return refusal
        with self.lock:
            found = getattr(self, f"{request.method.lower()}_{name}", None)
            return found(values) if found else bad(-1000, "no such path", 404)

    # Public

    def public_time(self, values: Row) -> tuple[int, Row]:
        return 200, {"serverTime": milliseconds(self.now())}

    def public_exchangeInfo(self, values: Row) -> tuple[int, Row]:
        return 200, {
            "timezone": "UTC",
            "serverTime": milliseconds(self.now()),
            "symbols": [*map(self._pair, self.prices)],
        }

    def _pair(self, symbol: str) -> Row:
        base, quote = symbol.split("-")
        return {
            "symbol": base + quote, "status": "BREAK" if symbol in self.delisted else "TRADING", "baseAsset": base,
            "baseAssetPrecision": 8, "quoteAsset": quote, "quotePrecision": 8, "quoteAssetPrecision": 8,
            "orderTypes": ["LIMIT", "LIMIT_MAKER", "MARKET", "STOP_LOSS", "STOP_LOSS_LIMIT"],
            "isSpotTradingAllowed": True, "permissions": [], "filters": [
                {"filterType": "PRICE_FILTER", "minPrice": "0.01", "maxPrice": "1000000", "tickSize": str(self.tick)},
                {"filterType": "LOT_SIZE", "minQty": "0.00001000", "maxQty": "9000.0", "stepSize": "0.00001000"},
                {"filterType": "NOTIONAL", "minNotional": "5.00000000", "applyMinToMarket": True},
            ],
        }  # fmt: skip

    def symbol_of(self, pair: str) -> str:
        return next(symbol for symbol in self.prices if symbol.replace("-", "") == pair)

    def public_klines(self, values: Row) -> tuple[int, Any]:
        symbol = self.symbol_of(values["symbol"])
        if values["interval"] != "1d":
            return 200, []
        rows = [
            [milliseconds(at_midnight(day)), *map(str, (o, h, low, c, volume)),
             milliseconds(at_midnight(day)) + 86_399_999, "0", 5, "0", "0", "0"]
            for day, o, h, low, c, volume in self.candles.get(symbol, [])
        ]  # fmt: skip
        limit = min(int(values.get("limit", 500)), self.page)
        if "startTime" in values:
            return 200, [row for row in rows if row[0] >= int(values["startTime"])][:limit]
        return 200, rows[-limit:]

    def public_day(self, values: Row) -> tuple[int, Any]:
        if "symbol" not in values:
            wanted = json.loads(values.get("symbols", "null")) or [name.replace("-", "") for name in self.prices]
            return 200, [self.public_day({"symbol": pair})[1] for pair in wanted]
        symbol = self.symbol_of(values["symbol"])
        price = str(self.prices[symbol])
        names = ("lastPrice", "bidPrice", "askPrice", "openPrice", "highPrice", "lowPrice", "weightedAvgPrice")
        facts = {"symbol": values["symbol"], "closeTime": milliseconds(self.now()), "volume": "1", "quoteVolume": "1"}
        return 200, facts | dict.fromkeys(names, price)

    # The account

    def get_apiRestrictions(self, values: Row) -> tuple[int, Row]:
        if self.rights is None:
            return 200, {"ipRestrict": True}
        names = ("enableReading", "enableWithdrawals", "enableSpotAndMarginTrading", "enableMargin", "enableFutures",
                 "enableInternalTransfer", "permitsUniversalTransfer")  # fmt: skip
        return 200, {"ipRestrict": True} | {name: name in self.rights for name in names}

    def get_bnbBurn(self, values: Row) -> tuple[int, Row]:
        return 200, {"spotBNBBurn": self.bnb_burn, "interestBNBBurn": False}

    def get_account(self, values: Row) -> tuple[int, Row]:
        rows = [
            {"asset": coin, "free": str(amount), "locked": "0.00000000"}
            for coin, amount in self.balances.items()
            if not (self.missing and coin == self.money)
        ]
        if self.missing:
            rows.append({"asset": self.money, "locked": "0"})
        return 200, {"canTrade": not self.blocked, "uid": 354937868, "accountType": "SPOT", "balances": rows}

    def place(self, values: Row) -> tuple[int, Row]:
        if values["type"] not in KINDS:
            return bad(-1116, "Invalid orderType.")
        quantity, kind = Decimal(values["quantity"]), KINDS[values["type"]]
        if quantity % STEP or quantity < STEP:
            return bad(-1013, "Filter failure: LOT_SIZE")
        limit, stop = (Decimal(values[name]) if name in values else None for name in ("price", "stopPrice"))
        if any(price is not None and price % self.tick for price in (limit, stop)):
            return bad(-1013, "Filter failure: PRICE_FILTER")
        client_id = values["newClientOrderId"]
        if any(row.client_id == client_id and row.state == "open" for row in self.orders.values()):
            return bad(-2010, "Duplicate order sent.")
        lasts = {"IOC": "ioc", "GTC": "gtc"}[values.get("timeInForce", "GTC")]
        symbol = self.symbol_of(values["symbol"])
        number = self.number()
        row = FarRow(number, client_id, symbol, values["side"].lower(), quantity, kind, lasts, limit, stop)
        return 200, self._seen(self.take(row))

    def get_order(self, values: Row) -> tuple[int, Any]:
        row = self._asked(values)
        return bad(-2013, "Order does not exist.") if row is None else (200, self._seen(row))

    def delete_order(self, values: Row) -> tuple[int, Any]:
        row = self._asked(values)
        if row is None or row.state != "open":
            return bad(-2011, "Unknown order sent.")
        if not self.slow:
            row.state = "cancelled"
        return 200, self._seen(row)

    def _asked(self, values: Row) -> FarRow | None:
        wanted = self.shown or values.get("origClientOrderId")
        found = self.by_client(wanted) if wanted else self.orders.get(values.get("orderId", ""))
        return (
            found
            if found is not None and (self.shown or self._pair(found.symbol)["symbol"] == values["symbol"])
            else None
        )

    def get_openOrders(self, values: Row) -> tuple[int, Any]:
        return 200, [self._seen(row) for row in self.orders.values() if row.state == "open"]

    def get_allOrders(self, values: Row) -> tuple[int, Any]:
        rows = [row for row in self.orders.values() if self._pair(row.symbol)["symbol"] == values["symbol"]]
        return 200, [self._seen(row) for row in rows if milliseconds(row.opened) >= int(values.get("startTime", 0))]

    def get_myTrades(self, values: Row) -> tuple[int, Any]:
        if self.lags:
            return 200, []
        found = [
            self._trade(row, trade)
            for row in self.orders.values()
            if self._pair(row.symbol)["symbol"] == values["symbol"] and values.get("orderId") in (None, row.number)
            for trade in row.trades
            if int(trade.id) >= int(values.get("fromId", 0))
            and milliseconds(trade.at) >= int(values.get("startTime", 0))
        ]
        return 200, found[: int(values.get("limit", 500))]

    def _seen(self, row: FarRow) -> Row:
        state = {"open": "PARTIALLY_FILLED" if row.trades else "NEW", "filled": "FILLED", "cancelled": "CANCELED",
                 "expired": "EXPIRED"}[row.state]  # fmt: skip
        return {
            "symbol": self._pair(row.symbol)["symbol"], "orderId": int(row.number), "clientOrderId": row.client_id,
            "price": str(row.limit or "0.00"), "stopPrice": str(row.stop or "0.00"), "origQty": f"{row.quantity:.8f}",
            "executedQty": f"{row.filled:.8f}", "cummulativeQuoteQty": f"{row.paid:.8f}", "status": state,
            "timeInForce": row.lasts.upper(), "type": TERMS[row.kind], "side": row.side.upper(),
            "time": milliseconds(row.opened),
        }  # fmt: skip

    def _trade(self, row: FarRow, trade: Trade) -> Row:
        return {
            "symbol": self._pair(row.symbol)["symbol"], "id": int(trade.id), "orderId": int(row.number),
            "price": f"{trade.price:.8f}", "qty": f"{trade.quantity:.8f}",
            "quoteQty": f"{trade.price * trade.quantity:.8f}", "commission": f"{trade.fee:.8f}",
            "commissionAsset": trade.fee_coin, "time": milliseconds(trade.at), "isBuyer": row.side == "buy",
        }  # fmt: skip


if __name__ == "__main__":
    far = FarBinance()
    for coin in ("BTC", "ETH", "SOL"):
        far.days(f"{coin}-USDT", 1200)
    wait_for_ever(far)
