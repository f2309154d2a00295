"""The far side of the venues' wires: one loopback server that answers as Manifold, Polymarket, Kalshi and Hyperliquid
document, texts where they send texts. What a test wants to go wrong is set in `faults`."""

from __future__ import annotations

import datetime as dt
import json
import threading
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, unquote, urlsplit

from chordesk.models.settings import Settings
from tests.fakes.serving import PromptHandler
from tests.parts import of_feature

PAGE = 1000
MANY = 500  # rows of one answer on funding


@dataclass
class Fault:
    """One thing that goes wrong. kind: html, half, busy, status or slow. times: answers that it spoils, all of them by
    default; wait: the Retry-After of busy, or seconds between the bytes of slow."""

    kind: str
    times: int | None = None
    wait: str | None = None
    status: int = 500


class VenueHandler(PromptHandler):
    server: FarVenues

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.server.asked.append((path, query if body is None else body))
        fault = self.server.fault_of(path)
        status, answer = self.server.answer(path, query, body)
        payload = json.dumps(answer).encode()
        if fault is None:
            self._send(status, payload)
        elif fault.kind == "html":
            self._send(200, b"<!doctype html><title>Checking your browser</title>", "text/html; charset=utf-8")
        elif fault.kind == "half":
            self._send(200, payload, sent=payload[: len(payload) // 2])
        elif fault.kind == "busy":
            self._send(429, b'{"error":"too many requests"}', after=fault.wait)
        elif fault.kind == "status":
            self._send(fault.status, b'{"message":"no"}')
        elif fault.kind == "slow":
            self._trickle(payload, float(fault.wait or 1))

    def _send(
        self,
        status: int,
        payload: bytes,
        kind: str = "application/json",
        sent: bytes | None = None,
        after: str | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        if after is not None:
            self.send_header("Retry-After", after)
        self.end_headers()
        self.wfile.write(payload if sent is None else sent)
        if sent is not None:
            self.close_connection = True

    def _trickle(self, payload: bytes, seconds: float) -> None:
        """Send a byte at a time, each well within a limit for reads, until the other side is gone."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        try:
            for byte in payload:
                self.wfile.write(bytes([byte]))
                if self.server.ended.wait(seconds):
                    return
        except OSError:
            self.close_connection = True


class FarVenues(ThreadingHTTPServer):
    """manifold, polymarket, kalshi: rows by id, as the `..._row` functions make them; kalshi_old: those that are kept
    under /historical; exclusive: Kalshi's events of which at most one market can come true. books: by token; prices:
    points (seconds, price) by token; bets: rows by Manifold's id; candles: rows by ticker. predicted, paid: funding as
    Hyperliquid sends it, paid by coin. faults: by the path's start."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), VenueHandler)
        self.asked: list[tuple[str, Any]] = []
        self.faults: dict[str, Fault] = {}
        self.manifold: dict[str, dict[str, Any]] = {}
        self.polymarket: dict[str, dict[str, Any]] = {}
        self.kalshi: dict[str, dict[str, Any]] = {}
        self.kalshi_old: dict[str, dict[str, Any]] = {}
        self.exclusive: set[str] = set()
        self.books: dict[str, dict[str, Any]] = {}
        self.prices: dict[str, list[tuple[int, float]]] = {}
        self.bets: dict[str, list[dict[str, Any]]] = {}
        self.candles: dict[str, list[dict[str, Any]]] = {}
        self.predicted: Any = []
        self.paid: dict[str, list[dict[str, Any]]] = {}
        self.ended = threading.Event()
        addresses = of_feature("chordesk.tools.board.venues.named_venues:ADDRESSES")
        self._instead = patch.dict(addresses, dict.fromkeys(addresses, self.url))

    def settings(self, home: Path) -> Settings:
        """Settings of a desk that asks every venue."""
        return Settings(home=home, venues=("manifold", "polymarket", "kalshi"))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        """Serve, and stand in for every venue until the end."""
        self._instead.start()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def end(self) -> None:
        self._instead.stop()
        self.ended.set()
        self.shutdown()
        self.server_close()

    def asked_for(self, start: str) -> int:
        return sum(path.startswith(start) for path, _ in self.asked)

    def fault_of(self, path: str) -> Fault | None:
        for start, fault in self.faults.items():
            if path.startswith(start) and fault.times != 0:
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    def answer(self, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path.startswith("/v0/"):
            return self._manifold(path.removeprefix("/v0/"), query)
        if path.startswith("/trade-api/v2/"):
            return self._kalshi(path.removeprefix("/trade-api/v2/"), query)
        if path == "/info":
            return self._hyperliquid(body)
        return self._polymarket(path, query)

    def _manifold(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if path == "search-markets":
            rows = [row for row in self.manifold.values() if query["term"].lower() in row["question"].lower()]
            return 200, [row for row in rows if not row["isResolved"]][: int(query["limit"])]
        if path == "bets":
            return 200, self.bets.get(query["contractId"], [])[: int(query["limit"])]
        return _known(self.manifold.get(path.removeprefix("market/")))

    def _polymarket(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if path == "/public-search":
            meant = [row for row in self.polymarket.values() if query["q"].lower() in row["question"].lower()]
            count = int(query["limit_per_type"])
            pages = {"hasMore": len(meant) > count, "totalResults": len(meant)}
            return 200, {"events": [{"id": "1", "title": "An event", "markets": meant[:count]}], "pagination": pages}
        if path == "/markets":
            running = [row for row in self.polymarket.values() if not row["closed"]]
            return 200, running[: int(query["limit"])]
        if path == "/book":
            book = self.books.get(query["token_id"])
            return _known(book)
        if path == "/prices-history":
            return 200, {"history": [{"t": at, "p": price} for at, price in self.prices.get(query["market"], [])]}
        return _known(self.polymarket.get(path.removeprefix("/markets/")))

    def _kalshi(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        if path == "markets":
            rows = [row for row in self.kalshi.values() if row["status"] == "active"]
            first = int(query.get("cursor", "0"))
            last = first + min(int(query["limit"]), PAGE)
            return 200, {"markets": rows[first:last], "cursor": str(last) if last < len(rows) else ""}
        if path.startswith("events/"):
            event = path.removeprefix("events/")
            rows = [row for row in self.kalshi.values() if row["event_ticker"] == event]
            whole = {"event_ticker": event, "mutually_exclusive": event in self.exclusive}
            return 200, {"event": whole, "markets": rows}
        if path.endswith("/candlesticks"):
            ticker = path.split("/")[-2]
            return 200, {"ticker": ticker, "candlesticks": self.candles.get(ticker, [])}
        old, ticker = path.startswith("historical/"), path.rsplit("/", 1)[-1]
        row = (self.kalshi_old if old else self.kalshi).get(ticker)
        return _known(None if row is None else {"market": row})

    def _hyperliquid(self, body: Any) -> tuple[int, Any]:
        if body["type"] == "predictedFundings":
            return 200, self.predicted
        rows = self.paid.get(body["coin"], [])
        return 200, [row for row in rows if body["startTime"] <= row["time"] <= body["endTime"]][:MANY]


def _known(found: Any) -> tuple[int, Any]:
    return (200, found) if found is not None else (404, {"message": "not found"})


def in_days(days: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=days)


def manifold_row(market_id: str, question: str, probability: float = 0.5, **more: Any) -> dict[str, Any]:
    """An open market with a pool of which `probability` follows."""
    return {
        "id": market_id,
        "slug": market_id,
        "url": f"https://manifold.markets/person/{market_id}",
        "question": question,
        "outcomeType": "BINARY",
        "mechanism": "cpmm-1",
        "probability": probability,
        "pool": {"YES": 1000 * (1 - probability), "NO": 1000 * probability},
        "p": 0.5,
        "closeTime": int(in_days(30).timestamp() * 1000),
        "isResolved": False,
        "volume": 2500.5,
        "token": "MANA",
        "textDescription": "Resolves by the official figure.",
        **more,
    }


def polymarket_row(market_id: str, question: str, bid: float = 0.48, ask: float = 0.52, **more: Any) -> dict[str, Any]:
    """An open market with a book."""
    return {
        "id": market_id,
        "question": question,
        "conditionId": f"0x{market_id}",
        "slug": f"market-{market_id}",
        "description": "Resolves by the official figure.",
        "outcomes": '["Yes", "No"]',
        "outcomePrices": json.dumps([f"{(bid + ask) / 2:.3f}", f"{1 - (bid + ask) / 2:.3f}"]),
        "clobTokenIds": json.dumps([f"{market_id}1", f"{market_id}2"]),
        "bestBid": bid,
        "bestAsk": ask,
        "volume": "12345.67",
        "volumeNum": 12345.67,
        "active": True,
        "closed": False,
        "endDate": f"{in_days(30):%Y-%m-%dT%H:%M:%SZ}",
        "umaResolutionStatuses": "[]",
        "feesEnabled": True,
        "feeSchedule": {"rate": 0.04, "exponent": 1, "takerOnly": True, "rebateRate": 0},
        **more,
    }


def kalshi_row(ticker: str, title: str, bid: str = "0.4800", ask: str = "0.5200", **more: Any) -> dict[str, Any]:
    """An open market with its best level."""
    return {
        "ticker": ticker,
        "event_ticker": ticker.rpartition("-")[0] or ticker,
        "market_type": "binary",
        "title": title,
        "yes_sub_title": "",
        "status": "active",
        "result": "",
        "yes_bid_dollars": bid,
        "yes_ask_dollars": ask,
        "yes_bid_size_fp": "120.00",
        "yes_ask_size_fp": "80.00",
        "volume_fp": "4321.00",
        "close_time": f"{in_days(30):%Y-%m-%dT%H:%M:%SZ}",
        "settlement_value_dollars": None,
        "rules_primary": "If the official figure is above, then the market resolves to Yes.",
        "rules_secondary": "",
        **more,
    }


def book_of(bids: list[tuple[str, str]], asks: list[tuple[str, str]]) -> dict[str, Any]:
    """A book as the CLOB sends it: texts, and the best level last on each side."""
    rows = [[{"price": price, "size": size} for price, size in side] for side in (bids, asks)]
    return {"market": "0x1", "asset_id": "1", "timestamp": "1703875200000", "bids": rows[0], "asks": rows[1]}


def paid_row(coin: str, at: dt.datetime, rate: str) -> dict[str, Any]:
    return {"coin": coin, "fundingRate": rate, "premium": "0.0001", "time": int(at.timestamp() * 1000)}
