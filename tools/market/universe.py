"""Universes: from a name, a file or a list of symbols to symbols; and the universe of a relative question."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from chordesk.models.answers import SYMBOL_PATTERN, spelled
from chordesk.models.errors import MarketError, UsageError
from chordesk.models.exchanges import EXCHANGES, exchange_code
from chordesk.models.files import expanded
from chordesk.models.market import Listing, plain_name
from chordesk.models.outside import MOST_LINE, Oversized, held
from chordesk.tools.market.home import TRADED_REMEDY, foreign, untraded
from chordesk.tools.market.protocol import ClosedSet, MarketData

NAMED = ("sp500",)
SYMBOL_RULE = "1 to 20 of A-Z, 0-9, dot, hyphen and &, a letter or digit first, e.g. AAPL, BRK.B or M&M.NS"
_SYMBOL = re.compile(SYMBOL_PATTERN)
_SHOWN = 10


def is_symbol(text: str) -> bool:
    return _SYMBOL.fullmatch(text) is not None


def is_named(universe: str) -> bool:
    return universe.strip().lower() in NAMED


def resolve_universe(text: str, market: MarketData) -> list[str]:
    """Return the symbols of `sp500`, of a file (one symbol a line, # begins a comment) or of a list by comma, without
    duplicates. Raises UsageError naming invalid symbols and symbols unknown to the market; NotConfigured when the
    market has no such named universe."""
    wanted = text.strip()
    if is_named(wanted):
        return [listing.symbol for listing in market.universe(wanted.lower())]
    symbols = _checked(_written(wanted), wanted)
    _require_exchange(symbols, market.clock.exchange)
    unknown = market.unknown(symbols) if isinstance(market, ClosedSet) else []
    if unknown:
        raise UsageError(
            f"the {market.name} market does not carry {_shown(unknown)} on {market.clock.now():%Y-%m-%d}",
            remedy="leave them out, or choose another DESK_MARKET",
        )
    return symbols


def _written(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if parts and all(foreign(part) for part in parts) and not Path(text).is_file():
        return parts  # a pair such as BTC/USDT looks like a path, and so does 7203.T
    if all(is_symbol(spelled(part)) for part in parts) and not _looks_like_path(text):
        return parts
    if not _looks_like_path(text) and not Path(text).is_file():
        return parts
    try:
        with expanded(text).open("rb") as file:
            lines = held("it", file, MOST_LINE).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError, Oversized) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        why = str(error) if isinstance(error, Oversized) else why
        raise UsageError(f"the universe file {text!r} cannot be read: {why}", remedy=_remedy()) from None
    return [symbol for line in lines if (symbol := line.split("#", 1)[0].strip())]


def _looks_like_path(text: str) -> bool:
    return "/" in text or "\\" in text or Path(text).suffix.lower() in {".txt", ".csv", ".lst"}


def _checked(written: Iterable[str], text: str) -> list[str]:
    symbols = list(dict.fromkeys(spelled(part) for part in written))
    if not symbols:
        raise UsageError(f"the universe {text!r} names no symbol", remedy=_remedy())
    if strange := [found for symbol in symbols if (found := untraded(symbol)) is not None]:
        more = f" and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        raise UsageError(
            f"not all of the universe is traded: {'; '.join(strange[:_SHOWN])}{more}", remedy=TRADED_REMEDY
        )
    wrong = [symbol for symbol in symbols if not is_symbol(symbol)]
    if wrong:
        raise UsageError(f"the universe has what is no symbol: {_shown(wrong)}", remedy=_remedy())
    return symbols


def _require_exchange(symbols: Sequence[str], own: str) -> None:
    """Raise UsageError for symbols of several exchanges, and for those of another than a run's own: a run has one
    exchange, whose clock, medians and questions are of all its symbols."""
    by_exchange: dict[str, list[str]] = {}
    for symbol in symbols:
        by_exchange.setdefault(exchange_code(symbol), []).append(symbol)
    if by_exchange.keys() <= {own}:
        return
    counted = [f"{_shown(names)} of {code} ({EXCHANGES[code].place})" for code, names in by_exchange.items()]
    commands = [f"DESK_EXCHANGE={code} DESK_UNIVERSE={_typed(names)}" for code, names in by_exchange.items()]
    if len(by_exchange) > 1:
        reason = f"the universe has symbols of {len(by_exchange)} exchanges: {'; '.join(counted)}"
        raise UsageError(reason, remedy=f"a run has one exchange: start one with {', and one with '.join(commands)}")
    raise UsageError(f"DESK_EXCHANGE={own}, and the universe is {counted[0]}", remedy=f"start it with {commands[0]}")


def _typed(symbols: Sequence[str]) -> str:
    """Return a list of symbols as a shell takes it."""
    return shlex.quote(",".join(symbols)) if len(symbols) <= _SHOWN else f"FILE (of these {len(symbols)})"


def _remedy() -> str:
    return f"give sp500, a file with one symbol a line, or symbols by comma; a symbol is {SYMBOL_RULE}"


def _shown(symbols: Sequence[str]) -> str:
    more = len(symbols) - _SHOWN
    return ", ".join(repr(symbol)[1:-1][:40] for symbol in symbols[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


HASH_DIGITS = 12


def universe_of_rule(universe: str, market: MarketData) -> str:
    """Return a universe as a rule keeps it: a named one by its name, another as its symbols by comma, in order. Raises
    UsageError for an invalid universe, MarketError for an unknown name."""
    wanted = universe.strip().lower()
    if wanted in NAMED:
        return wanted
    return ",".join(sorted(resolve_universe(universe, market)))


def named_universe(market: MarketData) -> str | None:
    for name in NAMED:
        try:
            if market.universe(name):
                return name
        except MarketError:
            continue
    return None


def compared_with(market: MarketData, universe: str) -> list[str]:
    """Return the symbols that a name of a run is compared with: the market's own list, else the run's universe where it
    is not a list of that name. Raises MarketError without any."""
    try:
        return [listing.symbol for listing in market.universe(NAMED[0])]
    except MarketError:
        if is_named(universe):
            raise
        return resolve_universe(universe, market)


def members(universe: str, market: MarketData) -> list[str]:
    if universe in NAMED:
        return [listing.symbol for listing in market.universe(universe)]
    return universe.split(",")


_CLASS = re.compile(r"\b(?:class|cl|series|ser)\.?\s+[a-z0-9]\b|\b(?:common stock|ordinary shares|adr)\b")
_FORM = re.compile(r"\b(?:inc|incorporated|corp|corporation|co|company|plc|ltd|limited|the|holdings?)\b|[^a-z0-9 ]")


def same_company(first: Listing, second: Listing) -> bool:
    """Return whether two listings are of one company: by what the source says (`company`), else by their names without
    the class of shares. Where neither is known they are taken for two."""
    if first.company is not None and second.company is not None:
        return first.company == second.company
    names = [_company_name(one.name) for one in (first, second)]
    return bool(names[0]) and names[0] == names[1]


def _company_name(name: str | None) -> str:
    return " ".join(_FORM.sub(" ", _CLASS.sub(" ", (name or "").lower())).split())


_COMMON = frozenset(
    ("american", "bank", "first", "general", "global", "home", "international", "national", "new", "north", "south",
     "united", "us")
)  # fmt: skip


def company_words(name: str | None) -> str:
    """Return the words by which texts name a company: the first of its name, two where the first is a common one."""
    words = _company_name(name).split()
    if not words:
        return ""
    return " ".join(words[:2]) if words[0] in _COMMON or len(words[0]) < 4 else words[0]


def universe_key(universe: str) -> str:
    if universe in NAMED:
        return universe
    return f"list-{hashlib.sha256(universe.encode()).hexdigest()[:HASH_DIGITS]}"


def universe_text(universe: str, market: MarketData) -> str:
    """Return a rule's universe as a question names it. A data folder's own symbols go by the name of a market's
    universe, and are not an index."""
    if universe not in NAMED:
        return f"these {universe.count(',') + 1} symbols'"
    return "the data folder's" if plain_name(market.name) == "files" else f"the {universe}'s"
