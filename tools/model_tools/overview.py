"""symbol_overview: company data, section by section, and as a few lines of Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from chordesk.models.company import Holder
from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.market import Listing, SymbolOverview
from chordesk.tools.decimals import rounded
from chordesk.tools.history import Budget
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.prices import lapse
from chordesk.tools.market.protocol import HolderSource, InsiderSource
from chordesk.tools.model_tools.company_data import absent, known, net, newest_first, plain_text
from chordesk.tools.model_tools.signals import signal_rows, technical_rows
from chordesk.tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload

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
    """Return one section that is no figure of prices. Raises NotConfigured where the market does not carry it,
    MarketError where it has none of the symbol."""
    if section == "insiders":
        return _insiders(context, symbol)
    if section == "hedgeFunds":
        return _institutions(context, symbol)
    return context.market.section(symbol, section)


def _insiders(context: ToolContext, symbol: str) -> SectionData:
    market, now = context.market, context.clock.now()
    if not isinstance(market, InsiderSource):
        raise absent(market, "insider trades")
    trades = newest_first(market.insider_trades(symbol), now)
    if not trades:
        raise MarketError(f"the source has no insider trades of {symbol}")
    newest = {"newest": trades[0].date.isoformat(), "knownAt": max(row.known_at for row in trades).isoformat()}
    return {**net(trades, INSIDER_DAYS, exchange_day(now)), **newest}


def _institutions(context: ToolContext, symbol: str) -> SectionData:
    """Return what the listed institutional holders come to. No source lists hedge funds apart from the others."""
    market, now = context.market, context.clock.now()
    if not isinstance(market, HolderSource):
        raise absent(market, "institutional holders")
    holders = known(market.holders(symbol), now)
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


# What the lines are made of.
SUMMARISED = ("signals", "fundamentals", "earnings", "ratings", "insiders")
_MARKUP = re.compile(r"([\\`*_\[\]<>|#~])")
Row = Mapping[str, Any]


def summary_markdown(overview: Row, sections: Mapping[str, Row], source: str) -> str:
    """Return the lines of one company. overview: its name, sector, industry and last close; sections: those of
    SUMMARISED that are known. Each line has its source and the time of its figures; the last names what is not
    known."""
    lines = [_title(overview)]
    for name, line in _LINES.items():
        if (section := sections.get(name)) is not None and (text := line(section)):
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
    """Return other people's text without a meaning in Markdown."""
    return _MARKUP.sub(r"\\\1", plain_text(text))


def _signals_line(row: Row) -> str:
    return _joined(
        _percent("20 sessions", row.get("momentum20")),
        _percent("60 sessions", row.get("momentum60")),
        _figure("RSI 14", row.get("rsi14")),
        _percent(f"from the high of {row.get('highSessions')} sessions", row.get("fromHigh")),
        _percent("volatility a year", row.get("volatility20"), signed=False),
    )


def _fundamentals_line(row: Row) -> str:
    return _joined(
        _figure("trailing P/E", row.get("trailingPE")),
        _figure("forward P/E", row.get("forwardPE")),
        _percent("revenue growth", row.get("revenueGrowth")),
        _percent("profit margin", row.get("profitMargin")),
        _figure("debt to equity in percent", row.get("debtToEquityPercent")),
    )


def _earnings_line(row: Row) -> str:
    date = row.get("earningsDate")
    return _joined(
        f"earnings date {date}" if date else "",
        _figure("trailing EPS", row.get("trailingEps")),
        _figure("forward EPS", row.get("forwardEps")),
    )


def _ratings_line(row: Row) -> str:
    rating = row.get("recommendation")
    return _joined(
        f"recommendation {_escaped(str(rating))}" if rating else "",
        _figure("analysts", row.get("analysts")),
        _figure("mean target", row.get("targetMean")),
        _figure("low", row.get("targetLow")),
        _figure("high", row.get("targetHigh")),
    )


def _insiders_line(row: Row) -> str:
    return _joined(
        f"insiders of {row['days']} days: {row['bought']} purchases, {row['sold']} sales",
        _figure("net shares", row.get("netShares")),
        _figure("net value", row.get("netValue")),
    )


_LINES: Mapping[str, Callable[[Row], str]] = dict(
    zip(SUMMARISED, (_signals_line, _fundamentals_line, _earnings_line, _ratings_line, _insiders_line), strict=True)
)


def _joined(*texts: str) -> str:
    found: Sequence[str] = [text for text in texts if text]
    return ", ".join(found)


def _figure(name: str, value: Any) -> str:
    return f"{name} {round(value, 2):,.10g}" if isinstance(value, int | float) else ""


def _percent(name: str, value: Any, *, signed: bool = True) -> str:
    return f"{name} {value:{'+' if signed else ''}.1%}" if isinstance(value, int | float) else ""


class OverviewArguments(Arguments):
    symbols: Symbols
    sections: Annotated[list[Section], AfterValidator(lambda sections: list(dict.fromkeys(sections)))] = Field(
        [], description="what to add to name, sector, industry and last close; none by default"
    )


def symbol_overview(context: ToolContext, arguments: OverviewArguments) -> dict[str, Any]:
    """Return overviews by symbol. `available`: one section of one symbol, or, without sections, one known symbol.

    A section that the source does not have is listed once for all symbols, and not requested again.
    """
    gaps, budget = Gaps(), Budget(context)
    summarised = SUMMARISED if "summaryMarkdown" in arguments.sections else ()
    wanted = [name for name in dict.fromkeys((*arguments.sections, *summarised)) if name != "summaryMarkdown"]
    overviews: list[SymbolOverview] = []
    found = price_sections(context, arguments.symbols, wanted, gaps)
    asked = [name for name in wanted if name not in found]
    for symbol in arguments.symbols:
        try:
            budget.spend()
            listing = context.market.listing(symbol)
        except DeskError as error:
            gaps.add("overview", error, symbol)
            continue
        sections = {name: rows[symbol] for name, rows in found.items() if symbol in rows}
        sections |= _sections(context, symbol, asked, gaps)
        overviews.append(_overview(context, listing, sections, arguments.sections, gaps))
    rows = [overview.model_dump(mode="json", by_alias=True, exclude_defaults=True) for overview in overviews]
    known = rows if not arguments.sections else [row for row in rows if _has_data(row, arguments.sections)]
    return payload(context, gaps, available=bool(known), overviews=rows)


def _has_data(row: dict[str, Any], sections: list[Section]) -> bool:
    """Return whether one of the sections is there; a summary is, where it has a line beside the names."""
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
