"""The far side of yfinance's wire: a loopback server that answers as Yahoo's endpoints do, and a session that leads
yfinance to it. Only what the desk reads is answered; what a test wants to go wrong is set in `trouble`."""

from __future__ import annotations

import datetime as dt
import json
import threading
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from zoneinfo import ZoneInfo

from curl_cffi import requests

from tests.fakes.serving import PromptHandler

REGULAR_HOURS = (dt.time(9, 30), dt.time(16))
NEW_YORK_OFFSET = dt.timezone(dt.timedelta(hours=-5))


class YahooHandler(PromptHandler):
    server: FarYahoo

    def do_GET(self) -> None:
        self._answer(self.path)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(self.path, body)

    def _answer(self, path: str, body: Any = None) -> None:
        parts = urlsplit(path)
        self.server.asked.append(parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, text = self.server.answer(parts.path, body, query)
        payload = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if text.startswith("<") else "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class FarYahoo(ThreadingHTTPServer):
    """charts: rows (date, open, high, low, close, volume) by symbol; adjusted, events: their adjusted closes, and their
    splits and dividends as Yahoo lists them. modules: what quoteSummary has beside the infos,
    by symbol and module. quotes: fields of the quote by symbol. reports: rows (date as on the page, estimate, actual)
    of the earnings calendar by symbol. intraday: rows as of charts with their starts in place of dates, by symbol and
    Yahoo's interval. listed: what a chart's meta says of a symbol that is no US share. trouble: (status, text) by the
    path's start."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), YahooHandler)
        self.asked: list[str] = []
        self.charts: dict[str, list[tuple[dt.date, float, float, float, float, int | None]]] = {}
        self.adjusted: dict[str, list[float]] = {}
        self.events: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
        self.intraday: dict[tuple[str, str], list[tuple[dt.datetime, float, float, float, float, int | None]]] = {}
        self.infos: dict[str, dict[str, Any]] = {}
        self.modules: dict[str, dict[str, dict[str, Any]]] = {}
        self.quotes: dict[str, dict[str, Any]] = {}
        self.reports: dict[str, list[tuple[str, str, str]]] = {}
        self.articles: dict[str, list[dict[str, Any]]] = {}
        self.options: dict[str, dict[str, Any]] = {}
        self.listed: dict[str, dict[str, Any]] = {}
        self.trouble: dict[str, tuple[int, str]] = {}

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def session(self) -> requests.Session:
        return LoopbackSession(f"http://127.0.0.1:{self.server_port}")

    def asked_for(self, start: str) -> int:
        return sum(path.startswith(start) for path in self.asked)

    def answer(self, path: str, body: Any, query: dict[str, str]) -> tuple[int, str]:
        for start, answer in self.trouble.items():
            if path.startswith(start):
                return answer
        name = unquote(path.rsplit("/", 1)[-1])
        if path.endswith("/getcrumb"):
            return 200, "crumb"
        if path.startswith("/v8/finance/chart/"):
            return self._chart(name) if query.get("interval", "1d") == "1d" else self._intraday(name, query)
        if path.startswith("/v10/finance/quoteSummary/"):
            return self._summary(name, query["modules"].split(","))
        if path.startswith("/v7/finance/quote"):
            found = [{"symbol": one, **self.quotes[one]} for one in query["symbols"].split(",") if one in self.quotes]
            return 200, json.dumps({"quoteResponse": {"result": found}})
        if path == "/calendar/earnings":
            return 200, calendar_page(query["symbol"], self.reports.get(query["symbol"], []))
        if path.startswith("/xhr/ncp"):
            stream = self.articles.get(body["serviceConfig"]["s"][0], [])
            return 200, json.dumps({"data": {"tickerStream": {"stream": stream}}})
        if path.startswith("/v7/finance/options/"):
            return self._known(self.options.get(name), "optionChain", lambda chain: [chain])
        return 200, "{}"

    def _summary(self, symbol: str, modules: list[str]) -> tuple[int, str]:
        """As Yahoo does, without a module that it has of the symbol: 404, and a text that differs from that of an
        unknown symbol."""
        given = {name: found for name, found in self.modules.get(symbol, {}).items() if name in modules}
        if "financialData" in modules:
            return self._known(self.infos.get(symbol), "quoteSummary", lambda info: [{"financialData": info}])
        if symbol in self.infos and not given:
            error = {"code": "Not Found", "description": f"No fundamentals data found for symbol: {symbol}"}
            return 404, json.dumps({"quoteSummary": {"result": None, "error": error}})
        return self._known(given or None, "quoteSummary", lambda found: [found])

    def _known(self, found: Any, kind: str, shape: Any) -> tuple[int, str]:
        if found is None:
            error = {"code": "Not Found", "description": "Quote not found"}
            return 404, json.dumps({kind: {"result": None, "error": error}})
        return 200, json.dumps({kind: {"result": shape(found), "error": None}})

    def _intraday(self, symbol: str, query: dict[str, str]) -> tuple[int, str]:
        rows = self.intraday.get((symbol, query["interval"]))
        if rows is None:
            return self._no_chart()
        days = sorted({row[0].date() for row in rows})
        hours = [
            [{"timezone": "EST", "gmtoffset": -18000, "start": int(opens.timestamp()), "end": int(closes.timestamp())}]
            for day in days
            for opens, closes in [[dt.datetime.combine(day, at, rows[0][0].tzinfo) for at in REGULAR_HOURS]]
        ]
        more = {"dataGranularity": query["interval"], "tradingPeriods": hours}
        return self._table(symbol, [int(row[0].timestamp()) for row in rows], rows, more)

    @staticmethod
    def _no_chart() -> tuple[int, str]:
        error = {"code": "Not Found", "description": "No data found, symbol may be delisted"}
        return 404, json.dumps({"chart": {"result": None, "error": error}})

    def _chart(self, symbol: str) -> tuple[int, str]:
        rows = self.charts.get(symbol)
        if rows is None:
            return self._no_chart()
        zone = self.listed.get(symbol, {}).get("exchangeTimezoneName")
        opens, there = (dt.time(8), ZoneInfo(zone)) if zone else (dt.time(9, 30), NEW_YORK_OFFSET)
        stamps = [int(dt.datetime.combine(row[0], opens, there).timestamp()) for row in rows]
        return self._table(symbol, stamps, rows, {})

    def _table(self, symbol: str, stamps: list[int], rows: Any, more: dict[str, Any]) -> tuple[int, str]:
        names = ("open", "high", "low", "close", "volume")
        columns = {name: [row[at] for row in rows] for at, name in enumerate(names, start=1)}
        meta = {
            "symbol": symbol,
            "currency": "USD",
            "instrumentType": "EQUITY",
            "exchangeTimezoneName": "America/New_York",
            "dataGranularity": "1d",
            "range": "2y",
            "validRanges": ["1d", "2y"],
            "priceHint": 2,
            **self.listed.get(symbol, {}),
            **more,
        }
        indicators: dict[str, Any] = {"quote": [columns]}
        if not more:  # an intraday chart has no adjusted closes
            indicators["adjclose"] = [{"adjclose": self.adjusted.get(symbol, columns["close"])}]
        result = {"meta": meta, "timestamp": stamps, "indicators": indicators, "events": self.events.get(symbol, {})}
        return 200, json.dumps({"chart": {"result": [result], "error": None}})


def calendar_page(symbol: str, rows: list[tuple[str, str, str]]) -> str:
    """The page of the earnings calendar: one table, or none without rows."""
    if not rows:
        return "<html><body><p>We couldn't find any results.</p></body></html>"
    names = ("Symbol", "Company", "Earnings Date", "EPS Estimate", "Reported EPS", "Surprise (%)")
    head = "".join(f"<th>{name}</th>" for name in names)
    cells = [
        "".join(f"<td>{cell}</td>" for cell in (symbol, "A company", at, estimate, actual, "-"))
        for at, estimate, actual in rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<html><body><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></body></html>"


class LoopbackSession(requests.Session):
    """Sends every request to one loopback address, whatever its host was."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base

    def request(self, method: str, url: str, *args: Any, **options: Any) -> Any:
        parts = urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        return super().request(method, f"{self._base}{parts.path}{query}", *args, **options)
