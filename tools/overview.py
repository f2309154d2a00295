"""symbol_overview: what is known of companies, section by section."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from models.errors import DeskError, NotConfigured
from models.market import Listing, SymbolOverview
from tools.history import Budget
from tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload

Section = Literal["fundamentals", "earnings", "ratings", "options"]
SectionData = dict[str, float | str | None]


def _distinct(sections: list[Section]) -> list[Section]:
    return list(dict.fromkeys(sections))


class OverviewArguments(Arguments):
    symbols: Symbols
    sections: Annotated[list[Section], AfterValidator(_distinct)] = Field(
        [], description="what to add to name, sector, industry and last close; none by default"
    )


def symbol_overview(context: ToolContext, arguments: OverviewArguments) -> dict[str, Any]:
    """`available` asks for what was asked: one section of one symbol, or, without sections, one known symbol.

    A source without a section is named once for all symbols, and not asked again.
    """
    gaps, budget = Gaps(), Budget(context)
    wanted: list[Section] = list(arguments.sections)
    overviews = []
    for symbol in arguments.symbols:
        try:
            budget.spend()
            overviews.append(_overview(context, context.market.listing(symbol), wanted, gaps))
        except DeskError as error:
            gaps.add("overview", error, symbol)
    rows = [overview.model_dump(mode="json", by_alias=True, exclude_defaults=True) for overview in overviews]
    available = any(_has_section(row) for row in overviews) if arguments.sections else bool(rows)
    return payload(context, gaps, available=available, overviews=rows)


def _overview(context: ToolContext, listing: Listing, wanted: list[Section], gaps: Gaps) -> SymbolOverview:
    found: dict[str, SectionData] = {}
    for section in tuple(wanted):
        try:
            found[section] = context.market.section(listing.symbol, section)
        except NotConfigured as error:
            gaps.add(section, error)
            wanted.remove(section)
        except DeskError as error:
            gaps.add(section, error, listing.symbol)
    return SymbolOverview(
        symbol=listing.symbol,
        name=listing.name,
        sector=listing.sector,
        industry=listing.industry,
        last_close=_last_close(context, listing.symbol, gaps),
        fundamentals=found.get("fundamentals"),
        earnings=found.get("earnings"),
        ratings=found.get("ratings"),
        options=found.get("options"),
    )


def _last_close(context: ToolContext, symbol: str, gaps: Gaps) -> float | None:
    try:
        return round(context.market.quote(symbol).price, 4)
    except DeskError as error:
        gaps.add("lastClose", error, symbol)
        return None


def _has_section(overview: SymbolOverview) -> bool:
    return any(
        part is not None for part in (overview.fundamentals, overview.earnings, overview.ratings, overview.options)
    )


SYMBOL_OVERVIEW = ToolSpec(
    name="symbol_overview",
    description=(
        "Name, sector, industry and last price of up to 150 symbols, with the sections asked for: fundamentals, "
        "earnings, ratings, options. What the source does not have is listed in `missing`."
    ),
    arguments=OverviewArguments,
    function=symbol_overview,
)
