"""The universe of own files: `universe.csv` with symbol, and name, sector and industry where they are known."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from chordesk.models.market import Listing
from chordesk.tools.market.files.reading.cells import is_empty
from chordesk.tools.market.files.reading.parts import parts_of
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import Part
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

NAMES = {
    "symbol": ("symbol", "ticker", "sym"),
    "name": ("name", "company", "companyname", "security", "longname"),
    "sector": ("sector", "gicssector"),
    "industry": ("industry", "gicssubindustry", "subindustry"),
}
_TEXTS = ("name", "sector", "industry")


def read_universe(path: Path, name: str, with_bars: Container[str], problems: Problems) -> dict[str, Listing]:
    """Return the listings of a universe file by symbol; a symbol without bars is a warning and is left out."""
    found: dict[str, Listing] = {}
    for part in parts_of(path, name, NAMES, problems):
        if "symbol" not in part.cells:
            problems.error(name, "has no column symbol", 1)
            return {}
        for at in range(len(part)):
            listing = _listing(part, at, problems)
            if listing is None:
                continue
            row = int(part.rows[at])
            if listing.symbol in found:
                problems.error(name, f"{listing.symbol} is listed twice", row, "symbol")
            elif listing.symbol not in with_bars:
                problems.warn(name, f"{listing.symbol} has no bars, and is left out", row, "symbol")
            else:
                found[listing.symbol] = listing
    return found


def _listing(part: Part, at: int, problems: Problems) -> Listing | None:
    symbol = str(part.cells["symbol"][at]).strip().upper()
    if not is_symbol(symbol):
        reason = f"{symbol[:40]!r} is no symbol: {SYMBOL_RULE}"
        problems.error(part.file, reason, int(part.rows[at]), part.written["symbol"])
        return None
    texts = {name: str(part.cells[name][at]).strip() for name in _TEXTS if name in part.cells}
    return Listing(symbol=symbol, **{name: text for name, text in texts.items() if not is_empty(text)})
