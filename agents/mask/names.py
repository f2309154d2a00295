"""What a mask takes for a name: the names of the known companies, and every capitalised word that is no plain one."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from chordesk.agents.mask.dates import MONTHS
from chordesk.models.market import Listing

_HERE = Path(__file__).parent
_PROMPTS = _HERE.parent / "prompts"
_WORD = re.compile(r"[A-Za-z][A-Za-z'\u2019-]*[A-Za-z]")
_FORM = re.compile(
    r",?\s+(?:incorporated|inc|corporation|corp|company|cos?|plc|ltd|limited|holdings?|group|n\.?v|s\.?a|& co|"
    r"cl(?:ass)? [a-c]|common stock)\.?$",
    re.IGNORECASE,
)
# In capitals, and no name of anyone.
_CAPITALS = frozenset({
    "I", "A", "ADX", "AI", "ATR", "AM", "BUY", "CAUTION", "CD", "CEO", "CFO", "CIO", "COO", "CPI", "CTO", "EBITDA",
    "EMA", "EPS", "ESG", "ETF", "ETFS", "EUR", "EV", "FAQ", "FCF", "FDA", "GAAP", "GDP", "GMT", "HIGH", "HOLD", "ID",
    "IPO", "IR", "IV", "IT", "JSON", "LOW", "MACD", "MEDIUM", "NAV", "NO", "NYSE", "OI", "OK", "OTC", "PASS", "PCE",
    "PE", "PEG", "PM", "PMI", "PR", "QE", "REIT", "REITS", "REJECT", "RISK", "ROC", "ROE", "ROI", "RSI", "SEC",
    "SELECT", "SELL", "SMA", "SP", "TV", "UK", "US", "USA", "USD", "UTC", "VIX", "VP", "VWAP", "WATCH", "YES", "YOY",
    "YTD",
})  # fmt: skip
_OF_A_COMPANY = frozenset({"inc", "incorporated", "corp", "corporation", "co", "cos", "ltd", "plc", "llc", "etf"})


@cache
def plain_words() -> frozenset[str]:
    """Words that stay when they are capitalised, in lower case; those of the desk's own prompts are among them."""
    texts = [(_HERE / "words.txt").read_text(encoding="utf-8")]
    texts += [path.read_text(encoding="utf-8") for path in sorted(_PROMPTS.rglob("*.md"))]
    return _OF_A_COMPANY.union(MONTHS, (word.lower() for text in texts for word in _WORD.findall(text)))


def is_plain(word: str) -> bool:
    """Return whether a word is no name by itself. Each part of one with hyphens has to be plain."""
    parts = re.sub(r"['\u2019]s?$", "", word).split("-")
    return word in _CAPITALS or all(
        part.isdigit()
        or part in _CAPITALS
        or (part.lower() in plain_words() and part[1:] in (part[1:].lower(), part[1:].upper()))
        for part in parts
    )


@cache
def kept_names() -> Mapping[str, tuple[str, ...]]:
    """By symbol, the names of names.txt."""
    lines = (_HERE / "names.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {symbol: tuple(name.strip() for name in names.split(";")) for symbol, _, names in rows}


def names_of(listing: Listing) -> list[str]:
    """Return what a company, its people and its products are called, its own name first."""
    found = [listing.name or "", *kept_names().get(listing.symbol, ()), *(listing.aliases or "").split(";")]
    own = (listing.name or "").strip()
    while (shorter := _FORM.sub("", own)) != own:
        own = shorter
        found.append(own)
    first = own.split(" ")[0]
    if len(first) > 2 and first[0].isupper() and not is_plain(first):
        found.append(first)
    return list(dict.fromkeys(name for one in found if len(name := one.strip()) > 1))


def invented_word(key: bytes, text: str, taken: Iterable[str] = ()) -> str:
    """Return a word that is none, the same for the same key and text."""
    for number in range(1000):
        digest = hmac.digest(key, f"{text}\0{number}".encode(), hashlib.sha256)
        pairs = zip(digest[0:8:2], digest[1:8:2], strict=True)
        word = "".join("bdfgklmnprtvz"[one % 13] + "aeiou"[other % 5] for one, other in pairs).capitalize()
        if word.lower() not in plain_words() and word not in taken:
            return word
    raise RuntimeError(f"no word is left for {text!r}")
