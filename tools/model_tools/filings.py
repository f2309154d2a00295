"""sec_filings: what a company filed with the SEC, read from EDGAR through edgartools, which is loaded when it is first
asked for."""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
import logging
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, Field, ValidationError
from typing_extensions import TypedDict

from chordesk.models.answers import upper
from chordesk.models.company import Filing
from chordesk.models.errors import DeskError, MarketError, MarketUnavailable, NotConfigured
from chordesk.models.exchanges import HOME
from chordesk.models.features import require_source
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.fetching import PACES, REQUEST_SECONDS, AgedCache
from chordesk.tools.market.protocol import FilingsSource, MarketClock
from chordesk.tools.model_tools.company_data import FewSymbols, bounded, known, share, shown
from chordesk.tools.prices.daily_bars import by_symbol
from chordesk.tools.registry import Answer, Arguments, Gaps, ToolContext, ToolSpec, Without, payload

# EDGAR, the SEC's archive of filings, through edgartools: loaded where a tool first asks for it and nowhere else, for
# it takes a second and some 150 MB.

SOURCE = "edgar"
FILINGS_AGE = dt.timedelta(minutes=15)
# Its lines name the identity and each request; an error is the tool's to report.
_CHATTY = ("edgar", "httpx", "httpcore", "httpxthrottlecache", "hishel", "stamina", "pyrate_limiter")
_LOCK = threading.Lock()
_LOADED: dict[str, Any] = {}


class Edgar:
    """FilingsSource of the filings that EDGAR has now, cached; the newest thousand or so of a company."""

    def __init__(self, home: Path, clock: MarketClock, identity: str) -> None:
        self._home = home
        self._clock = clock
        self._identity = identity
        self._cache = AgedCache(home / "cache" / "edgar")

    def filings(self, symbol: str) -> list[Filing]:
        kept = self._cache.get(f"filings-{symbol}", FILINGS_AGE, lambda: self._fetch(symbol))
        at = min(kept.at, self._clock.now())
        return [row for given in kept.value for row in _filing(symbol, given, at)]

    def _fetch(self, symbol: str) -> list[dict[str, Any]]:
        library = _library(self._home, self._identity)
        try:
            company = library.Company(symbol)
            found = company.get_filings(trigger_full_load=False)
            rows = found.data.to_pylist()
            if not rows and company.not_found:
                raise _unnumbered(symbol)
            archive = library.config.SEC_ARCHIVE_URL
            return [_plain(row, f"{archive}/data/{company.cik}") for row in rows]
        except DeskError:
            raise
        except Exception as error:
            raise _translated(error, symbol, library) from None


def edgar_of(settings: Settings, clock: MarketClock) -> Edgar:
    if clock.day is not None:
        raise NotConfigured("not available in a replay: EDGAR is asked for the filings of now alone")
    require_source("filings")
    if settings.sec_identity is None:
        raise NotConfigured(
            'not available: configure DESK_SEC_IDENTITY="NAME MAIL", which the SEC asks of every program that reads it'
        )
    return Edgar(settings.home, clock, settings.sec_identity.get_secret_value())


def _library(home: Path, identity: str) -> Any:
    """Return edgartools, loaded once a process: its files in the home, no second try of its own, no lines of log."""
    with _LOCK:
        if not _LOADED:
            os.environ["EDGAR_LOCAL_DATA_DIR"] = str(home / "cache" / "edgartools")
            # It sleeps up to 45 s between its tries, which is longer than a tool may take.
            importlib.import_module("stamina").set_active(False)
            _LOADED["edgar"] = library = importlib.import_module("edgar")
            for name in _CHATTY:
                logging.getLogger(name).setLevel(logging.CRITICAL)
            # The desk's cache keeps what it needs of an answer; the library's would keep megabytes a company.
            library.httpclient.HTTP_MGR = library.httpclient.get_http_mgr(False, PACES["SEC"].burst)
            library.configure_http(timeout=REQUEST_SECONDS)
        if _LOADED.get("identity") != identity:
            _LOADED["edgar"].set_identity(identity)
            _LOADED["identity"] = identity
        return _LOADED["edgar"]


def _plain(row: Mapping[str, Any], folder: str) -> dict[str, Any]:
    accession, document = str(row["accession_number"]), row.get("primaryDocument")
    page = document or f"{accession}-index.html"
    return {
        "form": row["form"],
        "filed": str(row["filing_date"]),
        "period": row.get("reportDate") or None,
        "items": [item.strip() for item in str(row.get("items") or "").split(",") if item.strip()],
        "title": row.get("primaryDocDescription") or None,
        "accession": accession,
        "url": f"{folder}/{accession.replace('-', '')}/{page}",
        "accepted": accepted.isoformat() if (accepted := row.get("acceptanceDateTime")) is not None else None,
    }


def _filing(symbol: str, row: Mapping[str, Any], at: dt.datetime) -> list[Filing]:
    """Return the filing in a list, [] when it is none. at: when it was fetched, and so known at the latest. The SEC
    labels the time of acceptance UTC, which is hours off for some companies; it is never taken to be later than the
    fetch."""
    accepted = row["accepted"]
    known_at = min(dt.datetime.fromisoformat(accepted), at) if accepted is not None else at
    fields = {name: value for name, value in row.items() if name != "accepted"}
    try:
        return [Filing.model_validate({"symbol": symbol, **fields, "known_at": known_at})]
    except ValidationError:
        return []


def _unnumbered(symbol: str) -> MarketError:
    return MarketError(f"unknown symbol {symbol}: EDGAR has no filings under its number")


def _translated(error: Exception, symbol: str, library: Any) -> DeskError:
    """Return the error as one of the desk; its own text, which may name the identity, is left out."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, library.TooManyRequestsError) or status == 429:
        return MarketUnavailable("the SEC limits our requests", remedy="try again in some minutes")
    if isinstance(error, library.CompanyNotFoundError):
        return MarketError(f"unknown symbol {symbol}: EDGAR has no such ticker")
    if status == 404:
        # edgartools has two HTTP libraries, and does not always recognise the error of the other.
        return _unnumbered(symbol)
    if status == 403:
        remedy = "DESK_SEC_IDENTITY needs your name and a mail address at which the SEC can reach you"
        return MarketUnavailable("the SEC refuses our requests (403)", remedy=remedy)
    if status is not None:
        return MarketUnavailable(f"the SEC does not answer for {symbol}: status {status}")
    if isinstance(error, (OSError, library.TransportError)) or type(error).__module__.startswith("httpx"):
        return MarketUnavailable(f"the SEC does not answer for {symbol}: {type(error).__name__}")
    return MarketUnavailable(f"the SEC's answer for {symbol} could not be read: {type(error).__name__}")


WHAT = "filings"
_MOST_ROWS = 90
_FORM = re.compile(r"[A-Z0-9][A-Z0-9 /-]{0,19}")
# Reports of insiders, which would bury all else; insider_trades has them.
_INSIDERS = frozenset({"3", "4", "5", "144"})


def _forms(values: list[str]) -> list[str]:
    found = list(dict.fromkeys(upper(value) for value in values))
    for form in found:
        if not _FORM.fullmatch(form):
            raise ValueError(f"{form!r} is no form, such as 8-K, 10-Q or SC 13D")
    return found


class FilingsArguments(Arguments):
    symbols: FewSymbols
    forms: Annotated[list[str], AfterValidator(_forms)] = Field(
        [], max_length=10, description="such as 8-K, 10-Q, with amendments; all but insiders' 3, 4, 5, 144 by default"
    )
    days: int = Field(180, ge=1, le=1000, description="calendar days back")
    limit: int = Field(10, ge=1, le=50, description="at most so many a symbol, newest first")


class FilingsRow(TypedDict):
    symbol: str
    filings: list[Annotated[Filing, Without("symbol", "accession")]]


class FilingsAnswer(Answer):
    filingsSource: NotRequired[str]
    days: int
    companies: list[FilingsRow]


def sec_filings(context: ToolContext, arguments: FilingsArguments) -> dict[str, Any]:
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_ROWS, arguments.symbols)
    first = exchange_day(now, HOME) - dt.timedelta(days=arguments.days)
    market = context.market
    own = isinstance(market, FilingsSource)

    def ask(symbol: str) -> list[Filing]:
        source = market if isinstance(market, FilingsSource) else edgar_of(context.settings, context.clock)
        return known(source.filings(symbol), now)

    found = []
    for symbol, rows in by_symbol(context, arguments.symbols, WHAT, gaps, ask):
        if not rows:
            gaps.add(WHAT, "the source has none", symbol)
            continue
        wanted = [row for row in rows if row.filed > first and _is_wanted(row.form, arguments.forms)]
        wanted.sort(key=lambda row: (row.known_at, row.filed), reverse=True)
        listed = [_row(row) for row in bounded(wanted, most, WHAT, symbol, gaps)]
        found.append({"symbol": symbol, "filings": listed})
    source = {} if own else {"filingsSource": SOURCE}
    return payload(context, gaps, available=bool(found), **source, days=arguments.days, companies=found)


def _is_wanted(form: str, forms: list[str]) -> bool:
    base = form.removesuffix("/A")
    return base in forms if forms else base not in _INSIDERS


def _row(row: Filing) -> dict[str, Any]:
    """Return a filing without what the URL names already; no items where there are none."""
    found = shown(row, "accession", *(() if row.items else ("items",)))
    return {**found, "url": row.url}


SEC_FILINGS = ToolSpec(
    name="sec_filings",
    description=(
        "What up to 30 companies filed with the SEC over the last days, newest first: form, filed, period, items of an "
        "8-K (2.02 results, 5.02 officers, 1.01 agreements, 4.02 restatement), url. Titles are outside text."
    ),
    arguments=FilingsArguments,
    function=sec_filings,
    answer=FilingsAnswer,
)
