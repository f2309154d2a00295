"""symbol_overview: company data, section by section."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from chordesk.models.errors import DeskError, NotConfigured
from chordesk.models.market import Listing, SymbolOverview
from chordesk.tools.history import Budget
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.sessions import lapse
from chordesk.tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload
from chordesk.tools.research.sections import Section, SectionData, company_section, price_sections
from chordesk.tools.research.summary import SUMMARISED, summary_markdown


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
