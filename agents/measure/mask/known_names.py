"""What a mask takes for a name: the names of the known companies, and every capitalised word that is no plain one."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from chordesk.models.market import Listing

FEWEST_WEEKS, WEEKS = 270, 520  # five years on at the least, fifteen at the most: no model has a memory of them
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_NUMBER_OF = {name.lower(): at for at, name in enumerate(_MONTHS, 1)}
_NUMBER_OF |= {name[:3].lower(): at for at, name in enumerate(_MONTHS, 1)} | {"sept": 9}
MONTHS = frozenset(_NUMBER_OF)  # in lower case, whole and short
_MONTH = r"(?P<month>" + "|".join([*_MONTHS, "Sept", *(name[:3] for name in _MONTHS)]) + r")\b\.?"
_ISO = re.compile(r"(?<![\d-])(\d{4}-\d\d-\d\d)(?!\d)")
_SLASHED = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})/(\d{4}|\d\d)(?![\d/])")
_WRITTEN = re.compile(
    rf"\b{_MONTH}(?:\s+|-)(?P<day>\d{{1,2}})(?P<th>st|nd|rd|th)?\b(?:(?:,?\s+|-)(?P<year>(?:19|20)\d\d)\b)?"
    rf"|\b(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+(?:of\s+)?|-){_MONTH.replace('month', 'month2')}"
    rf"(?:(?:,?\s+|-)(?P<year2>(?:19|20)\d\d)\b)?"
)
_MONTH_YEAR = re.compile(rf"\b{_MONTH}(?:,?\s+|-)(?P<year>(?:19|20)\d\d)\b")
_LONE_MONTH = re.compile(r"\b(?:" + "|".join([*(one for one in _MONTHS if one != "May"), r"(?<=[Ii]n )May"]) + r")\b")
# After a hyphen it is a year in mid-2025 and 2025-2026, and a number below zero elsewhere.
_YEAR = re.compile(
    r"""(?<![\d.,$€£])(?<![^\w\1]-)(?<!^-)(?<!":)(?<!": )"""
    r"""(?P<fy>FY\s?'?)?(?P<year>(?:19|20)\d\d)(?P<s>s?)(?![\d%]|[.,]\d)"""
)
_SHORT_FY = re.compile(r"\b(?P<fy>(?:FY|[1-4]Q|Q[1-4]\s?)'?)(?P<year>\d\d)\b(?!\s?%)")
D = TypeVar("D", bound=dt.date)


class Dates:
    """day: of the run's market, to which a date without a year is the nearest."""

    def __init__(self, key: bytes, day: dt.date) -> None:
        number = int.from_bytes(hmac.digest(key, b"weeks", hashlib.sha256)[:4])
        self.days = 7 * (FEWEST_WEEKS + number % (WEEKS + 1))
        self.day = day
        self.years = (day + dt.timedelta(days=self.days)).year - day.year

    def shift(self, day: D) -> D:
        return day + dt.timedelta(days=self.days)

    def hide(self, text: str, back: MutableMapping[str, str]) -> str:
        """back: gets what a date in words was."""
        return self._moved(text, 1, back)

    def restore(self, text: str, back: MutableMapping[str, str]) -> str:
        for shown in sorted((one for one in back if " " in one), key=len, reverse=True):
            text = re.sub(rf"\b{re.escape(shown)}\b", lambda _, shown=shown: f"\0{back[shown]}\0", text)  # type: ignore[misc]
        parts = text.split("\0")  # every second one is put back already
        return "".join(part if at % 2 else self._moved(part, -1, None) for at, part in enumerate(parts))

    def _moved(self, text: str, way: int, back: MutableMapping[str, str] | None) -> str:
        """Each date is moved once: what is done is set aside with a mark until all are."""
        done: list[str] = []

        def keep(found: re.Match[str], shown: str | None) -> str:
            if shown is None:
                return found[0]
            if back is not None and " " in shown and back.get(shown) is None:
                back[shown] = found[0]
            done.append(shown)
            return f"\1{len(done) - 1}\1"

        steps = (
            (_ISO, self._iso), (_SLASHED, self._slashed), (_WRITTEN, self._written), (_MONTH_YEAR, self._month_year),
            (_LONE_MONTH, self._lone_month), (_YEAR, self._year), (_SHORT_FY, self._short_year),
        )  # fmt: skip
        for pattern, move in steps:
            text = pattern.sub(lambda found, move=move: keep(found, move(found, way)), text)  # type: ignore[misc]
        return re.sub("\1(\\d+)\1", lambda found: done[int(found[1])], text)

    def _by(self, day: dt.date, way: int) -> dt.date:
        return day + dt.timedelta(days=self.days * way)

    def _near(self, way: int) -> dt.date:
        """The run's day as the text's side has it."""
        return self.day if way > 0 else self._by(self.day, 1)

    def _iso(self, found: re.Match[str], way: int) -> str | None:
        try:
            return self._by(dt.date.fromisoformat(found[1]), way).isoformat()
        except (ValueError, OverflowError):
            return None

    def _slashed(self, found: re.Match[str], way: int) -> str | None:
        year = int(found[3]) + (2000 if len(found[3]) == 2 else 0)
        if (day := _day(year, int(found[1]), int(found[2]))) is None:
            return None
        moved = self._by(day, way)
        return f"{moved.month}/{moved.day}/{moved.year if len(found[3]) == 4 else moved.strftime('%y')}"

    def _written(self, found: re.Match[str], way: int) -> str | None:
        before = found["day"] is None
        name, number, year = (found[one + "2" * before] for one in ("month", "day", "year"))
        near = self._near(way)
        month = _NUMBER_OF[name.lower()]
        years = [int(year)] if year else sorted((near.year - 1, near.year, near.year + 1), key=lambda one: abs(
            ((_day(one, month, 15) or near) - near).days
        ))  # fmt: skip
        if (day := _day(years[0], month, int(number))) is None:
            return None
        moved = self._by(day, way)
        shown = _MONTHS[moved.month - 1][: None if len(name) > 4 or name == "May" else 3]
        with_year = f", {moved.year}" if year else ""
        return f"{moved.day} {shown}{with_year.replace(',', '')}" if before else f"{shown} {moved.day}{with_year}"

    def _month_year(self, found: re.Match[str], way: int) -> str | None:
        moved = self._by(dt.date(int(found["year"]), _NUMBER_OF[found["month"].lower()], 15), way)
        return f"{_MONTHS[moved.month - 1]} {moved.year}"

    def _lone_month(self, found: re.Match[str], way: int) -> str:
        near = self._near(way)
        return _MONTHS[self._by(dt.date(near.year, _NUMBER_OF[found[0].lower()], 15), way).month - 1]

    def _year(self, found: re.Match[str], way: int) -> str | None:
        return f"{found['fy'] or ''}{int(found['year']) + self.years * way}{found['s']}"

    def _short_year(self, found: re.Match[str], way: int) -> str:
        return f"{found['fy']}{(int(found['year']) + self.years * way) % 100:02d}"


def _day(year: int, month: int, day: int) -> dt.date | None:
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None


_HERE = Path(__file__).parent
_LENSES = _HERE.parents[1] / "lenses"
_PROMPTS = _HERE.parents[1] / "prompts"
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
    texts += [path.read_text(encoding="utf-8") for path in sorted((*_PROMPTS.rglob("*.md"), *_LENSES.glob("*.md")))]
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
