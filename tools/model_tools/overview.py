"""symbol_overview: company data, section by section, and as a few lines of Markdown."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from chordesk.models.company import Holder
from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.market import Listing, SymbolOverview
from chordesk.tools.decimals import rounded
from chordesk.tools.history import by_symbol
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.earnings import split
from chordesk.tools.market.prices import lapse
from chordesk.tools.market.protocol import ChainSource, EarningsSource, HolderSource, InsiderSource
from chordesk.tools.model_tools.company_data import known, net, newest_first, plain_text, source_of
from chordesk.tools.model_tools.signals import signal_rows, technical_rows
from chordesk.tools.registry import DISTINCT, Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload

Section = Literal[
    "fundamentals",
    "earnings",
    "ratings",
    "options",
    "technicals",
    "signals",
    "insiders",
    "hedgeFunds",
    "summaryMarkdown",
]
SectionData = dict[str, float | str | None]
INSIDER_DAYS = 180
OPTION_DAYS = 120
_OF_PRICES: Mapping[str, Callable[[ToolContext, Sequence[str], Gaps], list[dict[str, Any]]]] = {
    "signals": signal_rows,
    "technicals": technical_rows,
}


def price_sections(
    context: ToolContext, symbols: Sequence[str], sections: Sequence[str], gaps: Gaps
) -> dict[str, dict[str, SectionData]]:
    """Return those of the sections that are figures of prices, by section and symbol: all symbols at once."""
    return {
        section: {row["symbol"]: _without_symbol(row) for row in _OF_PRICES[section](context, symbols, gaps)}
        for section in sections
        if section in _OF_PRICES
    }


def _without_symbol(row: Mapping[str, Any]) -> SectionData:
    return {name: value for name, value in row.items() if name != "symbol"}


def company_section(context: ToolContext, symbol: str, section: str) -> SectionData:
    """Return one section that is not made of prices. Raises NotConfigured where the market does not carry it,
    MarketError where it has none of the symbol."""
    if section == "insiders":
        return _insiders(context, symbol)
    if section == "hedgeFunds":
        return _institutions(context, symbol)
    market = context.market
    try:
        return market.section(symbol, section)
    except NotConfigured:  # the market may have what the section is made of
        if section == "earnings" and isinstance(market, EarningsSource):
            return _earnings(market, symbol, context)
        if section == "options" and isinstance(market, ChainSource):
            return _options(market, symbol, context)
        raise


def _earnings(market: EarningsSource, symbol: str, context: ToolContext) -> SectionData:
    following, past = split(market.earnings(symbol), context.clock.now())
    if following is None and not past:
        raise MarketError(f"the source has no earnings dates of {symbol}")
    found: SectionData = {"earningsDate": following.date.isoformat() if following is not None else None}
    if past:
        found |= {"lastReport": past[0].date.isoformat(), "lastEps": past[0].eps_actual}
    rows = past[:1] if following is None else [following, *past[:1]]
    return {**found, "knownAt": max(row.known_at for row in rows).isoformat()}


def _options(market: ChainSource, symbol: str, context: ToolContext) -> SectionData:
    """Figures of the first expiry from today on; None where no contract has the figure."""
    today = exchange_day(context.clock.now())
    chain = market.chain(symbol, today, today + dt.timedelta(days=OPTION_DAYS))
    if not chain.rows:
        raise MarketError(f"the source has no contracts on {symbol} that expire within {OPTION_DAYS} days")
    expiry = min(row.contract.expiry for row in chain.rows)
    found: SectionData = {"expiry": expiry.isoformat()}
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


def _insiders(context: ToolContext, symbol: str) -> SectionData:
    market, now = context.market, context.clock.now()
    trades = newest_first(source_of(market, InsiderSource, "insider trades").insider_trades(symbol), now)
    if not trades:
        raise MarketError(f"the source has no insider trades of {symbol}")
    newest = {"newest": trades[0].date.isoformat(), "knownAt": max(row.known_at for row in trades).isoformat()}
    return {**net(trades, INSIDER_DAYS, exchange_day(now)), **newest}


def _institutions(context: ToolContext, symbol: str) -> SectionData:
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


def _sums(holders: Sequence[Holder]) -> SectionData:
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


# By section and field: the text of its value, with other fields of the section by name.
_PARTS: Mapping[str, Mapping[str, str]] = {
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
SUMMARISED = tuple(_PARTS)


def _line(name: str, section: Row) -> str:
    texts = (_part(text, section.get(field), section) for field, text in _PARTS[name].items())
    return ", ".join(text for text in texts if text)


def _part(text: str, value: Any, section: Row) -> str:
    if isinstance(value, str):
        return "" if "{0:" in text else text.format(_escaped(value))
    return "" if value is None else text.format(value if "%" in text else round(value, 2), **section)


class OverviewArguments(Arguments):
    symbols: Symbols
    sections: Annotated[list[Section], DISTINCT] = Field(
        [], description="what to add to name, sector, industry and last close; none by default"
    )


def symbol_overview(context: ToolContext, arguments: OverviewArguments) -> dict[str, Any]:
    """Return overviews by symbol. `available`: one section of one symbol, or, without sections, one known symbol. A
    section that the source does not have is listed once for all symbols, and not requested again."""
    gaps = Gaps()
    summarised = SUMMARISED if "summaryMarkdown" in arguments.sections else ()
    wanted = [name for name in dict.fromkeys((*arguments.sections, *summarised)) if name != "summaryMarkdown"]
    overviews: list[SymbolOverview] = []
    found = price_sections(context, arguments.symbols, wanted, gaps)
    asked = [name for name in wanted if name not in found]
    for symbol, listing in by_symbol(context, arguments.symbols, "overview", gaps, context.market.listing):
        sections = {name: rows[symbol] for name, rows in found.items() if symbol in rows}
        sections |= _sections(context, symbol, asked, gaps)
        overviews.append(_overview(context, listing, sections, arguments.sections, gaps))
    rows = [overview.model_dump(mode="json", by_alias=True, exclude_defaults=True) for overview in overviews]
    known = rows if not arguments.sections else [row for row in rows if _has_data(row, arguments.sections)]
    return payload(context, gaps, available=bool(known), overviews=rows)


def _has_data(row: dict[str, Any], sections: list[Section]) -> bool:
    own = [name for name in sections if name != "summaryMarkdown"]
    return not row.keys().isdisjoint(own) or "\n- " in row.get("summaryMarkdown", "").partition("\n- Not known:")[0]


def _sections(context: ToolContext, symbol: str, wanted: list[str], gaps: Gaps) -> dict[str, SectionData]:
    """Return the symbol's sections; one that the source does not carry at all is taken out of `wanted`."""
    found: dict[str, SectionData] = {}
    for section in tuple(wanted):
        try:
            found[section] = company_section(context, symbol, section)
        except NotConfigured as error:
            gaps.add(section, error)
            wanted.remove(section)
        except DeskError as error:
            gaps.add(section, error, symbol)
    return found


def _overview(
    context: ToolContext, listing: Listing, sections: dict[str, SectionData], asked: list[Section], gaps: Gaps
) -> SymbolOverview:
    row = {**listing.model_dump(), "lastClose": _last_close(context, listing.symbol, gaps)}
    if "summaryMarkdown" in asked:
        row["summaryMarkdown"] = summary_markdown(row, sections, context.market.name)
    return SymbolOverview.model_validate({**row, **{name: sections[name] for name in asked if name in sections}})


def _last_close(context: ToolContext, symbol: str, gaps: Gaps) -> float | None:
    try:
        quote = context.market.quote(symbol)
    except DeskError as error:
        gaps.add("lastClose", error, symbol)
        return None
    if (why := lapse(exchange_day(quote.at), context.clock.session())) is not None:
        gaps.add("lastClose", why, symbol)
        return None
    return round(quote.price, 4)


SYMBOL_OVERVIEW = ToolSpec(
    name="symbol_overview",
    description=(
        "Name, sector, industry and last price of up to 150 symbols, with the sections asked for; knownAt is when the "
        "source had one. What the source does not have is listed in `missing`."
    ),
    hint="what is known of companies; `symbols`, and `sections` such as fundamentals, earnings, ratings, insiders.",
    arguments=OverviewArguments,
    function=symbol_overview,
)
