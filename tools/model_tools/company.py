"""company_get: the one record of a company, part by part, and as a few lines of Markdown.

Each part is made in one place, and the tools that list its rows (earnings_dates, insider_trades, news_index) read the
same functions: none can say what another denies. A part has its source and the time from which it was known, or is in
`missing` with one reason.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NotRequired, get_args

import numpy as np
from pydantic import Field
from sqlmodel import col, select
from typing_extensions import TypedDict

from chordesk.models.company import Holder, Statement
from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.market import Listing, SymbolSignals, SymbolTechnicals
from chordesk.models.tables.orders import Position
from chordesk.models.tables.runs import Candidate
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import clock_day, day_of
from chordesk.tools.market.prices import chain_of, lapse
from chordesk.tools.market.protocol import (
    HolderSource,
    MarketData,
    RatingsSource,
    RecordedSessions,
    StatementSource,
)
from chordesk.tools.market.universe import NAMED, same_company
from chordesk.tools.model_tools.company_data import (
    EARNINGS_NOUN,
    known,
    net,
    next_report,
    past_report,
    plain_text,
    ratings_of,
    reports,
    short_row,
    source_of,
    trades_of,
)
from chordesk.tools.model_tools.news import every_headline, index_row
from chordesk.tools.model_tools.reports import earlier_verdicts
from chordesk.tools.model_tools.signals import signal_rows, technical_rows
from chordesk.tools.prices.daily_bars import by_symbol
from chordesk.tools.prices.price_panel import CORRELATION_SESSIONS, correlations, log_returns, panel_of
from chordesk.tools.registry import DISTINCT, Answer, Arguments, Gaps, Symbols, ToolContext, ToolSpec, Without, payload
from chordesk.tools.risk.exposure import underlying_of
from chordesk.tools.scoring.market_regime import strength_of

Part = Literal[
    "related",
    "signals",
    "technicals",
    "strength",
    "correlation",
    "valuation",
    "fundamentals",
    "statements",
    "earnings",
    "ratings",
    "options",
    "shortInterest",
    "insiders",
    "hedgeFunds",
    "news",
    "verdicts",
    "summaryMarkdown",
]
PartData = dict[str, Any]
INSIDER_DAYS = 180
OPTION_DAYS = 120
_RATIO = re.compile(r"PE$|^pegRatio$|^priceTo|^enterpriseTo|^dividendYield$")  # fields that compare with a price
NEWS_DAYS = 14
_SURPRISES, _CLOSEST, _NAMED = 4, 5, 3
LIKELY_RELATED = 0.9  # correlation of two symbols if one is the beginning of the other


def related_part(context: ToolContext, symbol: str) -> PartData:
    """Return the other listings of the same company: by what the source says of both, else by symbols of which one
    begins with the other and whose returns are nearly the same. Raises MarketError where there is none."""
    own = context.market.listing(symbol)
    listed = [one for one in _listings(context.market) if one.symbol != symbol]
    same = [one.symbol for one in listed if same_company(own, one)]
    similar = [one.symbol for one in listed if alike(symbol, one.symbol) and one.symbol not in same]
    likely = [one for one, value in _correlated(context, symbol, similar) if value >= LIKELY_RELATED]
    if not same and not likely:
        raise MarketError(f"no other listing of the company of {symbol} is known")
    return {"sameCompany": same, "likelySame": likely}


def alike(first: str, second: str) -> bool:
    short, long = sorted((first.replace("-", "."), second.replace("-", ".")), key=len)
    return (long.startswith(short) and len(long) == len(short) + 1) or (
        "." in short and short.partition(".")[0] == long.partition(".")[0]
    )


def _listings(market: MarketData) -> list[Listing]:
    try:
        return market.universe(NAMED[0])
    except DeskError:
        return []


def strength_rows(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> list[PartData]:
    """Return relative strength and beta of each symbol that has the market's latest session."""
    panel = panel_of(context, symbols)
    sectors = {one.symbol: one.sector for one in _listings(context.market)}
    if not any(sectors.get(symbol) for symbol in symbols):
        gaps.add(
            "sector strength", "the source has no sectors of these names; universe.csv of a data folder gives them"
        )
    for symbol in symbols:
        if symbol in panel.absent:
            gaps.add("strength", panel.absent[symbol], symbol)
    present = [symbol for symbol in symbols if symbol not in panel.absent]
    return [{"symbol": symbol, **strength_of(panel, symbol, sectors)} for symbol in present]


def correlation_part(context: ToolContext, symbol: str) -> PartData:
    """Return the correlations of 60 daily returns with what the account holds, and with the other candidates of the
    run, the closest first. Raises MarketError where there is neither."""
    held, others = _held(context), _candidates(context)
    groups = {
        "portfolio": [one for one in held if one != symbol],
        "candidates": [one for one in others if one != symbol],
    }
    if not any(groups.values()):
        raise MarketError("the account holds nothing else, and the run has no other candidate")
    found: PartData = {"sessions": CORRELATION_SESSIONS, "held": symbol in held}
    for name, symbols in groups.items():
        rows = sorted(_correlated(context, symbol, symbols), key=lambda row: -row[1])
        found[name] = [{"symbol": one, "correlation": value} for one, value in rows[:_CLOSEST]]
        found[f"{name}Mean"] = rounded(float(np.mean([value for _, value in rows])), 2) if rows else None
        if lacking := sorted({*symbols} - {one for one, _ in rows}):
            found[f"{name}Unknown"] = lacking[:_CLOSEST]
    return found


def _correlated(context: ToolContext, symbol: str, others: Sequence[str]) -> list[tuple[str, float]]:
    """Return (symbol, correlation) of those that have 60 returns, as the symbol itself has."""
    if not others:
        return []
    returns = log_returns(context, [symbol, *others])
    having = [one for one in others if one in returns]
    if symbol not in returns or not having:
        return []
    row = correlations(returns, [symbol, *having], 0.0)[0, 1:]
    return [(one, round(float(value), 2)) for one, value in zip(having, row, strict=True)]


def _held(context: ToolContext) -> list[str]:
    if context.store is None:
        return []
    with context.store.read() as session:
        names = session.exec(select(Position.symbol).where(Position.account == context.account)).all()
    return sorted({underlying_of(name) for name in names})


def _candidates(context: ToolContext) -> list[str]:
    if context.store is None or context.run_id is None:
        return []
    with context.store.read() as session:
        return list(session.exec(select(Candidate.symbol).where(col(Candidate.run_id) == context.run_id)).all())


def _statements(context: ToolContext, symbol: str) -> list[Statement]:
    market = context.market
    if not isinstance(market, StatementSource):
        why = f"the {market.name} market has no statements; a data folder has them in statements.csv"
        raise NotConfigured(f"not available: {why}")
    return known(market.statements(symbol), context.clock.now())


_OF_STATEMENTS = frozenset({"valuation", "fundamentals", "statements"})


def open_statements(context: ToolContext, arguments: Mapping[str, Any]) -> None:
    """Read a folder's statements: once a process, and those of thousands of names take longer than a call may."""
    market, parts, symbols = context.market, arguments.get("parts"), arguments.get("symbols")
    asked = isinstance(parts, list) and not _OF_STATEMENTS.isdisjoint(map(str, parts))
    if asked and isinstance(market, StatementSource) and isinstance(market, RecordedSessions):
        for symbol in symbols if isinstance(symbols, list) else ():
            with suppress(MarketError):
                market.statements(str(symbol))
                return


def valuation(context: ToolContext, symbol: str) -> PartData:
    """Return ratios of statements, their history and the peers' medians; where the market has no statements, the ratios
    of its fundamentals."""
    # Every process of the desk has this tool's description, and few read a company.
    from chordesk.tools.model_tools.company_statements import valuation_part
    from chordesk.tools.model_tools.peers import peers_of

    try:
        rows = _statements(context, symbol)
    except NotConfigured:
        section = _dated(context, context.market.section(symbol, "fundamentals"))
        kept = ("newest", "knownAt")
        found = {name: value for name, value in section.items() if _RATIO.search(name) or name in kept}
    else:
        found = valuation_part(context.market, symbol, rows)
    try:
        return {**found, "peers": peers_of(context, symbol)}
    except DeskError as error:
        return {**found, "lacks": [*found.get("lacks", ()), f"peers: {error}"]}


def fundamentals(context: ToolContext, symbol: str) -> PartData:
    """Return the source's own figures; where it has none, those of the newest statements."""
    try:
        return _dated(context, context.market.section(symbol, "fundamentals"))
    except NotConfigured:
        if not isinstance(context.market, StatementSource):
            raise
    from chordesk.tools.model_tools.company_statements import fundamentals_part

    return fundamentals_part(context.market, symbol, _statements(context, symbol))


def statements(context: ToolContext, symbol: str) -> PartData:
    from chordesk.tools.model_tools.company_statements import statements_part

    return statements_part(symbol, _statements(context, symbol), clock_day(context.clock))


def _dated(context: ToolContext, section: Mapping[str, Any]) -> PartData:
    """Return a source's own figures with the age of the quarter that they end with, where it names that."""
    found = {name: value for name, value in section.items() if name != "lastQuarter"}
    if (end := section.get("lastQuarter")) is not None:
        age = clock_day(context.clock) - dt.date.fromisoformat(str(end))
        found["newest"] = f"quarter to {end}, {age.days} days old"
    return found


def earnings(context: ToolContext, symbol: str) -> PartData:
    """Return the next report, the last one and its surprise, with what else the source has of earnings."""
    try:
        following, past = reports(context, symbol)
    except NotConfigured as error:
        try:
            return _with_dividend(context, context.market.section(symbol, "earnings"))
        except NotConfigured:
            raise error from None
    further = _with_dividend(context, _further(context, symbol, "earnings"))
    if following is None and not past and not further:
        raise MarketError(f"the source has no {EARNINGS_NOUN} of {symbol}")
    found: PartData = {**further, "earningsDate": following.date.isoformat() if following is not None else None}
    if following is not None:
        ahead = next_report(following, clock_day(context.clock))
        found |= {name: ahead[name] for name in ("until", "daysUntil", "timing", "confirmed") if name in ahead}
    if past:
        last = past_report(past[0])
        found |= {"lastReport": last["date"], "lastEps": last.get("epsActual"), "lastSurprise": last.get("surprise")}
        surprises = [row["surprise"] for row in map(past_report, past[:_SURPRISES]) if "surprise" in row]
        found |= {"surprises": surprises} if surprises else {}
    rows = past[:1] if following is None else [following, *past[:1]]
    return {**found, "knownAt": max(row.known_at for row in rows).isoformat()} if rows else found


def _with_dividend(context: ToolContext, section: Mapping[str, Any]) -> PartData:
    """Return the section with the next ex-dividend day: a source keeps the last one until another is declared."""
    found = {name: value for name, value in section.items() if name != "exDividend"}
    day = section.get("exDividend")
    if day is not None and str(day) >= clock_day(context.clock).isoformat():
        found["nextExDividend"] = day
    return found


def _further(context: ToolContext, symbol: str, section: str) -> PartData:
    """Return what the market has of a section beside the rows; nothing where it has none."""
    try:
        return dict(context.market.section(symbol, section))
    except DeskError:
        return {}


def ratings(context: ToolContext, symbol: str) -> PartData:
    if not isinstance(context.market, RatingsSource):
        return context.market.section(symbol, "ratings")
    try:
        changes, targets = ratings_of(context, symbol)
    except NotConfigured:
        return context.market.section(symbol, "ratings")
    further = _further(context, symbol, "ratings")
    latest = max(targets, key=lambda row: row.known_at, default=None)
    if latest is None and not changes and not further:
        raise MarketError(f"the source has no ratings of {symbol}")
    found = dict(further)
    if latest is not None:
        found |= {
            "recommendation": latest.rating, "recommendationMean": latest.mean_rating, "analysts": latest.analysts,
            "targetMean": latest.mean, "targetLow": latest.low, "targetHigh": latest.high,
        }  # fmt: skip
    if changes:
        last = changes[0]
        found |= {"lastChange": f"{plain_text(last.firm)}: {plain_text(last.rating or 'not stated')}"}
    rows = [*(row.known_at for row in targets), *(row.known_at for row in changes)]
    return {**found, "knownAt": max(rows).isoformat()} if rows else found


def options(context: ToolContext, symbol: str) -> PartData:
    try:
        return context.market.section(symbol, "options")
    except NotConfigured:  # the market may have chains all the same
        return _of_chain(context, symbol)


def _of_chain(context: ToolContext, symbol: str) -> PartData:
    """Return volume, open interest and, where the source states it, implied volatility nearest to the money, of the
    first expiry from today on; None where no contract has the figure."""
    today = clock_day(context.clock)
    chain = chain_of(context.market, symbol, today, today + dt.timedelta(days=OPTION_DAYS))
    if not chain.rows:
        raise MarketError(f"the source has no contracts on {symbol} that expire within {OPTION_DAYS} days")
    expiry = min(row.contract.expiry for row in chain.rows)
    found: PartData = {"expiry": expiry.isoformat()}
    for kind, name in (("call", "Call"), ("put", "Put")):
        rows = [row for row in chain.rows if row.contract.expiry == expiry and row.contract.kind == kind]
        near = sorted((row for row in rows if row.iv), key=lambda row: abs(float(row.contract.strike) - chain.spot))
        found[f"atTheMoney{name}IV"] = near[0].iv if near else None
        found[f"{kind}Volume"] = _total(row.volume for row in rows)
        found[f"{kind}OpenInterest"] = _total(row.open_interest for row in rows)
    return {**found, "knownAt": chain.at.isoformat()}


def _total(counts: Iterable[float | None]) -> float | None:
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None


def insiders(context: ToolContext, symbol: str) -> PartData:
    trades = trades_of(context, symbol)
    if not trades:
        raise MarketError(f"the source has no insider trades of {symbol}")
    newest = {"newest": trades[0].date.isoformat(), "knownAt": max(row.known_at for row in trades).isoformat()}
    return {**net(trades, INSIDER_DAYS, clock_day(context.clock)), **newest}


def institutions(context: ToolContext, symbol: str) -> PartData:
    """Return what the listed institutional holders come to. No source lists hedge funds apart from the others."""
    market, now = context.market, context.clock.now()
    holders: list[Holder] = known(source_of(market, HolderSource, "institutional holders").holders(symbol), now)
    if not holders:
        raise MarketError(f"the source has no institutional holders of {symbol}")
    newest = max(row.date for row in holders)
    return {
        **_sums(holders),
        "reportedFor": newest.isoformat(),
        "knownAt": max(row.known_at for row in holders).isoformat(),
        "kind": "institutions that report their holdings, hedge funds among them",
    }


def _sums(holders: Sequence[Holder]) -> PartData:
    """Return counts and shares of the holders: fractions of the shares outstanding, None where one lacks its own."""
    shares = [row.of_outstanding for row in holders]
    given = [share for share in shares if share is not None]
    largest = max(holders, key=lambda row: row.of_outstanding or 0)
    return {
        "listed": len(holders),
        "ofOutstanding": rounded(sum(given)) if len(given) == len(shares) else None,
        "largest": plain_text(largest.holder),
        "largestOfOutstanding": largest.of_outstanding,
        "increased": sum((row.change or 0) > 0 for row in holders),
        "decreased": sum((row.change or 0) < 0 for row in holders),
    }


def news(context: ToolContext, symbol: str) -> PartData:
    """Return how many headlines there were by day and source; their text is news_list's."""
    rows = every_headline(context, symbol)
    first = clock_day(context.clock) - dt.timedelta(days=NEWS_DAYS - 1)
    return {
        "days": NEWS_DAYS,
        **index_row(rows, first, (NEWS_DAYS, _CLOSEST)),
        "knownAt": rows[-1].published_at.isoformat(),
    }


def verdicts(context: ToolContext, symbol: str) -> PartData:
    """Return the desk's own last verdicts on the symbol, and what came of each."""
    if not (rows := earlier_verdicts(context, symbol, _NAMED)):
        raise MarketError("the desk has none up to now")
    return {"last": rows, "source": "desk", "knownAt": rows[0]["marketAt"]}


_BATCHES: Mapping[str, Callable[[ToolContext, Sequence[str], Gaps], list[PartData]]] = {
    "signals": signal_rows,
    "technicals": technical_rows,
    "strength": strength_rows,
}
_PARTS: Mapping[str, Callable[[ToolContext, str], PartData]] = {
    "related": related_part,
    "correlation": correlation_part,
    "valuation": valuation,
    "fundamentals": fundamentals,
    "statements": statements,
    "earnings": earnings,
    "ratings": ratings,
    "options": options,
    "shortInterest": short_row,
    "insiders": insiders,
    "hedgeFunds": institutions,
    "news": news,
    "verdicts": verdicts,
}


_MARKUP = re.compile(r"([\\`*_\[\]<>|#~])")
Row = Mapping[str, Any]


def summary_markdown(overview: Row, sections: Mapping[str, Row], source: str) -> str:
    """Return the lines of one company. overview: its name, sector, industry and last close; sections: the known ones of
    SUMMARISED. Each line has its source and the time of its figures; the last line names missing sections."""
    lines = [_title(overview)]
    for name in SUMMARISED:
        if (section := sections.get(name)) is not None and (text := _line(name, section)):
            lines.append(f"- {text} ({source}, {section.get('knownAt') or section.get('date')})")
    lacking = [name for name in SUMMARISED if name not in sections]
    if lacking:
        lines.append(f"- Not known: {', '.join(lacking)}")
    return "\n".join(lines)


def _title(overview: Row) -> str:
    names = [_escaped(overview[name]) for name in ("name", "sector", "industry") if overview.get(name)]
    close = overview.get("lastClose")
    priced = f"last price {close:g}" if close is not None else "last price not known"
    return f"**{overview['symbol']}** {', '.join([*names, priced])}"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", plain_text(text))


# By part and field: the text of its value, with other fields of the section by name.
_LINES: Mapping[str, Mapping[str, str]] = {
    "signals": {
        "momentum20": "20 sessions {0:+.1%}",
        "momentum60": "60 sessions {0:+.1%}",
        "rsi14": "RSI 14 {0:,.10g}",
        "fromHigh": "from the high of {highSessions} sessions {0:+.1%}",
        "volatility20": "volatility a year {0:.1%}",
    },
    "fundamentals": {
        "trailingPE": "trailing P/E {0:,.10g}",
        "forwardPE": "forward P/E {0:,.10g}",
        "revenueGrowth": "revenue growth {0:+.1%}",
        "profitMargin": "profit margin {0:+.1%}",
        "debtToEquityPercent": "debt to equity in percent {0:,.10g}",
        "newest": "newest figures of the {0}",
        "absent": "{0}",
    },
    "earnings": {
        "earningsDate": "earnings date {0}",
        "lastReport": "last report {0}",
        "trailingEps": "trailing EPS {0:,.10g}",
        "forwardEps": "forward EPS {0:,.10g}",
    },
    "ratings": {
        "recommendation": "recommendation {0}",
        "analysts": "analysts {0:,.10g}",
        "targetMean": "mean target {0:,.10g}",
        "targetLow": "low {0:,.10g}",
        "targetHigh": "high {0:,.10g}",
    },
    "insiders": {
        "bought": "insiders of {days} days: {bought} purchases, {sold} sales",
        "netShares": "net shares {0:,.10g}",
        "netValue": "net value {0:,.10g}",
    },
}
SUMMARISED = tuple(_LINES)


def _line(name: str, section: Row) -> str:
    texts = (_part(text, section.get(field), section) for field, text in _LINES[name].items())
    return ", ".join(text for text in texts if text)


def _part(text: str, value: Any, section: Row) -> str:
    if isinstance(value, str):
        return "" if "{0:" in text else text.format(_escaped(value))
    return "" if value is None else text.format(value if "%" in text else round(value, 2), **section)


class CompanyArguments(Arguments):
    symbols: Symbols
    parts: Annotated[list[Part], DISTINCT] = Field(
        [], description="what to add to name, sector, industry and last close; none by default"
    )


Figures = dict[str, Any]  # of a part: what its source has


class CompanyRow(TypedDict):
    symbol: str
    name: str | None
    sector: str | None
    industry: str | None
    lastClose: float | None
    related: NotRequired[Figures]
    signals: NotRequired[Annotated[SymbolSignals, Without("symbol")]]
    technicals: NotRequired[Annotated[SymbolTechnicals, Without("symbol")]]
    strength: NotRequired[Figures]
    correlation: NotRequired[Figures]
    valuation: NotRequired[Figures]
    fundamentals: NotRequired[Figures]
    statements: NotRequired[Figures]
    earnings: NotRequired[Figures]
    ratings: NotRequired[Figures]
    options: NotRequired[Figures]
    shortInterest: NotRequired[Figures]
    insiders: NotRequired[Figures]
    hedgeFunds: NotRequired[Figures]
    news: NotRequired[Figures]
    verdicts: NotRequired[Figures]
    summaryMarkdown: NotRequired[str]


class CompaniesAnswer(Answer):
    companies: list[CompanyRow]


def company_get(context: ToolContext, arguments: CompanyArguments) -> dict[str, Any]:
    """Return the record of each symbol. `available`: one part of one symbol, or, without parts, one known symbol.

    A part that the source does not have at all is listed once for all symbols, and not requested again.
    """
    gaps = Gaps()
    summarised = SUMMARISED if "summaryMarkdown" in arguments.parts else ()
    wanted = [name for name in dict.fromkeys((*arguments.parts, *summarised)) if name != "summaryMarkdown"]
    batches = {name: _batch(context, arguments.symbols, name, gaps) for name in wanted if name in _BATCHES}
    asked = [name for name in wanted if name not in batches]
    rows = []
    for symbol, listing in by_symbol(context, arguments.symbols, "company", gaps, context.market.listing):
        parts = {name: found[symbol] for name, found in batches.items() if symbol in found}
        parts |= _parts(context, symbol, asked, gaps)
        rows.append(_record(context, listing, parts, arguments.parts, gaps))
    some = rows if not arguments.parts else [row for row in rows if _has_data(row, arguments.parts)]
    return payload(context, gaps, available=bool(some), companies=rows)


def _batch(context: ToolContext, symbols: Sequence[str], name: str, gaps: Gaps) -> dict[str, PartData]:
    """Return a part of prices of all symbols that have it, by symbol."""
    try:
        rows = _BATCHES[name](context, symbols, gaps)
    except DeskError as error:
        gaps.add(name, error)
        return {}
    return {row["symbol"]: {key: value for key, value in row.items() if key != "symbol"} for row in rows}


def _has_data(row: dict[str, Any], parts: Sequence[str]) -> bool:
    """Return whether one of the parts is there; a summary is, where it has a line beside the names."""
    own = [name for name in parts if name != "summaryMarkdown"]
    return not row.keys().isdisjoint(own) or "\n- " in row.get("summaryMarkdown", "").partition("\n- Not known:")[0]


def _parts(context: ToolContext, symbol: str, wanted: list[str], gaps: Gaps) -> dict[str, PartData]:
    """Return the symbol's parts; one that the source does not carry at all is taken out of `wanted`."""
    found: dict[str, PartData] = {}
    for name in tuple(wanted):
        try:
            found[name] = {"source": context.market.name, **_whole(_PARTS[name](context, symbol))}
        except NotConfigured as error:
            gaps.add(name, error)
            wanted.remove(name)
        except DeskError as error:
            gaps.add(name, error, symbol)
    return found


def _whole(part: PartData) -> PartData:
    """Return a part whose whole amounts are written without a fraction."""
    return {name: int(one) if isinstance(one, float) and one.is_integer() else one for name, one in part.items()}


def _record(
    context: ToolContext, listing: Listing, parts: Mapping[str, PartData], asked: Sequence[str], gaps: Gaps
) -> dict[str, Any]:
    row = {
        **{name: getattr(listing, name) for name in ("symbol", "name", "sector", "industry")},
        "lastClose": _last_close(context, listing.symbol, gaps),
    }
    if "summaryMarkdown" in asked:
        row["summaryMarkdown"] = summary_markdown(row, parts, context.market.name)
    return {**row, **{name: parts[name] for name in get_args(Part) if name in asked and name in parts}}


def _last_close(context: ToolContext, symbol: str, gaps: Gaps) -> float | None:
    try:
        quote = context.market.quote(symbol)
    except DeskError as error:
        gaps.add("lastClose", error, symbol)
        return None
    if (why := lapse(day_of(quote.at, quote.symbol), context.clock.session())) is not None:
        gaps.add("lastClose", why, symbol)
        return None
    return round(quote.price, 4)


COMPANY_GET = ToolSpec(
    name="company_get",
    description=(
        "The record of up to 150 companies: name, sector, industry, last price, and the parts asked for. related: "
        "other listings. strength: returns against the benchmark (all names in equal parts) and the sector over 20, "
        "60 and 250 sessions, percentile among all, beta. correlation: with holdings and the run's other candidates. "
        "statements: as first filed. valuation: ratios now, at filings, and peers' medians. verdicts: the desk's "
        "own, and what came of them. What the source does not have is in `missing` with the reason."
    ),
    arguments=CompanyArguments,
    function=company_get,
    answer=CompaniesAnswer,
    opens=open_statements,
)
