"""symbol_overview: company data, section by section."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from models.errors import DeskError, NotConfigured
from models.market import Listing, SymbolOverview
from tools.history import Budget
from tools.market.clock import exchange_day
from tools.market.sessions import lapse
from tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload

Section = Literal["fundamentals", "earnings", "ratings", "options"]
SectionData = dict[str, float | str | None]


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
    wanted: list[Section] = list(arguments.sections)
    overviews = []
    for symbol in arguments.symbols:
        try:
            budget.spend()
            overviews.append(_overview(context, context.market.listing(symbol), wanted, gaps))
        except DeskError as error:
            gaps.add("overview", error, symbol)
    rows = [overview.model_dump(mode="json", by_alias=True, exclude_defaults=True) for overview in overviews]
    known = rows if not arguments.sections else [row for row in rows if not row.keys().isdisjoint(arguments.sections)]
    return payload(context, gaps, available=bool(known), overviews=rows)


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
    last_close = _last_close(context, listing.symbol, gaps)
    return SymbolOverview.model_validate({**listing.model_dump(), **found, "last_close": last_close})


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
        "Name, sector, industry and last price of up to 150 symbols, with the sections asked for: fundamentals, "
        "earnings, ratings, options. What the source does not have is listed in `missing`."
    ),
    hint="what is known of companies; `symbols`, and `sections` out of fundamentals, earnings, ratings, options.",
    arguments=OverviewArguments,
    function=symbol_overview,
)
