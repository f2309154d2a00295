"""Rows of a company from a market that may have them: asked for, cut at now, bounded, cleaned."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field

from chordesk.models.errors import DeskError, NotConfigured
from chordesk.tools.history import Budget
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import Gaps, Symbol, ToolContext

_SPACE = re.compile(r"\s+")
TEXT_CHARS = 80
MAX_SYMBOLS = 30

# For answers with many rows a symbol.
FewSymbols = Annotated[
    list[Symbol],
    Field(min_length=1, max_length=MAX_SYMBOLS, description=f"1 to {MAX_SYMBOLS} tickers, all in one call"),
    AfterValidator(lambda symbols: list(dict.fromkeys(symbols))),
]


class Known(Protocol):
    """Row with the time from which on it could be known."""

    @property
    def known_at(self) -> AwareDatetime: ...


K = TypeVar("K", bound=Known)
V = TypeVar("V")


def absent(market: MarketData, what: str) -> NotConfigured:
    """Return the error that a market has no such rows, with the remedy."""
    past = ", which has those of now alone" if market.clock.day is not None else ""
    return NotConfigured(
        f"not available: the {market.name} market has no {what}; configure DESK_MARKET=yahoo for them{past}"
    )


def by_symbol(
    context: ToolContext, symbols: Sequence[str], what: str, gaps: Gaps, ask: Callable[[str], V]
) -> Iterator[tuple[str, V]]:
    """Yield (symbol, answer) of each symbol that `ask` has an answer to. A source that lacks it for all is named once,
    and not asked again; another failure is the symbol's own."""
    budget = Budget(context)
    for symbol in symbols:
        try:
            budget.spend()
            yield symbol, ask(symbol)
        except NotConfigured as error:
            gaps.add(what, error)
            return
        except DeskError as error:
            gaps.add(what, error, symbol)


def known(rows: Sequence[K], now: dt.datetime) -> list[K]:
    """Return the rows that were known by now."""
    return [row for row in rows if row.known_at <= now]


def share(limit: int, most: int, symbols: Sequence[str]) -> int:
    """Return how many rows a symbol may have: `limit`, or less where so many symbols would exceed `most` together."""
    return max(min(limit, most // len(symbols)), 1)


def bounded(rows: Sequence[V], limit: int, what: str, symbol: str, gaps: Gaps) -> list[V]:
    """Return the first rows; a gap states how many there are."""
    if len(rows) > limit:
        gaps.add(f"older {what}", f"{len(rows)} are known, {limit} are shown", symbol)
    return list(rows[:limit])


def plain_text(text: str, most: int = TEXT_CHARS) -> str:
    """Return other people's text as one line of at most `most` characters: without control, format and private
    characters, markup kept as it is."""
    spaced = _SPACE.sub(" ", text)
    kept = "".join(char for char in spaced if char == " " or not unicodedata.category(char).startswith("C"))
    return kept.strip()[:most]


def shown(row: BaseModel, *without: str) -> dict[str, Any]:
    """Return a row as an answer has it: texts cleaned, unknown fields left out."""
    found = row.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"symbol", *without})
    return {name: plain_text(value) if isinstance(value, str) else value for name, value in found.items()}
