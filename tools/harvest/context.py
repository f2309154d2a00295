"""What a harvester may look at, and how it asks for it symbol by symbol."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from chordesk.models.board.questions import BoardQuestion
from chordesk.models.board.signals import Harvest
from chordesk.models.errors import DeskError, NotConfigured
from chordesk.models.research import ScreenConfidence
from chordesk.tools.history import Budget
from chordesk.tools.market.clock import NEW_YORK, exchange_hours
from chordesk.tools.market.protocol import MarketClock
from chordesk.tools.market.universe import is_symbol
from chordesk.tools.registry import ToolContext

V = TypeVar("V")
NO_SYMBOL = "no question has a symbol of the market"
_CLOSE = dt.time(16, 0)
_IN_LINE = 8  # in a line
_LISTED = 40  # in data


@dataclass(frozen=True, slots=True)
class LensHit:
    """A symbol that a lens of a screen put forward. at: market time of the screen."""

    symbol: str
    lens: str
    confidence: ScreenConfidence
    at: dt.datetime


@dataclass(frozen=True, slots=True)
class EarlierVote:
    """A voice's last forecast of one question in an earlier episode. question: its id; at: market time."""

    voice: str
    faction: str
    question: str
    probability: float
    baseline: float
    at: dt.datetime


@dataclass(frozen=True, slots=True)
class HarvestContext:
    """The data that a harvester may read. symbols: those that the questions are about; hits: of the account's latest
    screen of the market's day; votes: of its latest episode before; seconds: limit of one harvester."""

    tool: ToolContext
    questions: tuple[BoardQuestion, ...]
    symbols: tuple[str, ...]
    seconds: float
    hits: tuple[LensHit, ...] = ()
    votes: tuple[EarlierVote, ...] = ()


def symbols_of(questions: Sequence[BoardQuestion]) -> tuple[str, ...]:
    """Return the symbols that questions are about, each once, in the questions' order."""
    return tuple(dict.fromkeys(one for question in questions for one in question.subjects if is_symbol(one)))


def asleep(reason: str) -> Harvest:
    """Return the harvest of a tool that has nothing to report."""
    return Harvest(dormant=reason)


def each(context: HarvestContext, ask: Callable[[str], V]) -> tuple[dict[str, V], dict[str, str]]:
    """Return (answers, reasons of failures), both by symbol. Raises NotConfigured as the source does, and a source's
    own failure when no symbol has an answer."""
    budget, found, failed = Budget(context.tool), dict[str, V](), dict[str, DeskError]()
    for symbol in context.symbols:
        try:
            budget.spend()
            found[symbol] = ask(symbol)
        except NotConfigured:
            raise
        except DeskError as error:
            failed[symbol] = error
    away = next((error for error in failed.values() if error.retryable), None)
    if away is not None and not found:
        raise away
    return found, {symbol: str(error) for symbol, error in failed.items()}


def bar_time(clock: MarketClock, day: dt.date) -> dt.datetime:
    """Return from when on the bar of a day was known, at the latest now: a replay takes five minutes before the close
    for the close."""
    hours = exchange_hours()
    close = hours.close_of(day) if hours.is_session(day) else dt.datetime.combine(day, _CLOSE, NEW_YORK)
    return min(close, clock.now())


def listed(names: Sequence[str]) -> str:
    """Return names as a list of bounded length."""
    more = len(names) - _IN_LINE
    return ", ".join(names[:_IN_LINE]) + (f" and {more} more" if more > 0 else "")


def named(names: Sequence[str]) -> list[str]:
    """Return names for the data of a finding, which are bounded."""
    more = len(names) - _LISTED
    return [*names[:_LISTED], *([f"and {more} more"] if more > 0 else [])]
