"""Whether anything that a mask hides was shown to a model all the same: read from what was kept of each conversation.

Nothing here uses the mask's own rules of replacement. It looks for the real symbols and names as they are written, for
days of the years that the run's market knows, and for the prices at which its names traded. A price that is also a
level of the conversation as it was shown, by chance, is not one of them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache

import orjson

from chordesk.agents.measure.mask.known_names import is_plain, names_of
from chordesk.agents.measure.mask.mask import Mask
from chordesk.models.answers import Frozen
from chordesk.models.outside import inflated
from chordesk.models.settings.types import MaskKind
from chordesk.models.tables.runtime import MaskedTurn

YEARS = 3  # before the run's day, of which dates are looked for
_AROUND = 40  # characters of an excerpt on both sides
_SYMBOL = re.compile(
    r"(?<![\w&.'\u2019-])(?:[A-Z][A-Z0-9]*(?:&[A-Z0-9]+)*(?:[.-][A-Z0-9]+)?|\d[A-Z0-9]*\.[A-Z]{1,3})"
    r"(?![\w&'\u2019]|-[a-z])"
)
_PRICE = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3})+|\d+)\.\d{2,}(?![\d%]|\s?%|x\b)")
_OTHER = re.compile(
    r"(?:rsi|adx|ratio|volatility|pe|away|rank|percent|growth|margin|stake)[\w -]*\"?:? ?$", re.IGNORECASE
)
_YEAR = re.compile(r"(?<![\d.,$])(?<!\W-)(?<!^-)(?:19|20)\d\d(?![\d.,]?\d|%)")
_ID = r"[HL]\d{6}(?!\d)"


class Leak(Frozen):
    """One hidden thing that a model was shown. kind: of the mask; what: as it stands there."""

    kind: MaskKind
    role: str
    subject: str
    what: str
    excerpt: str


class Audit(Frozen):
    run_id: str
    kinds: list[MaskKind]
    conversations: int
    texts: int
    characters: int
    leaks: list[Leak]


def audit(mask: Mask, run_id: str, rows: Iterable[MaskedTurn]) -> Audit:
    leaks: list[Leak] = []
    conversations = texts = characters = 0
    for row in rows:
        conversations += 1
        kept = orjson.loads(inflated("a masked turn", row.body))
        for text in kept["shown"]:
            texts, characters = texts + 1, characters + len(text)
            leaks += [
                Leak(kind=kind, role=row.role, subject=row.subject, what=text[start:end], excerpt=_near(text, start))
                for kind, start, end in leaks_in(mask, text, row.subject, frozenset(kept["scaled"]))
            ]
    kinds: list[MaskKind] = sorted(mask.kinds)
    return Audit(
        run_id=run_id, kinds=kinds, conversations=conversations, texts=texts, characters=characters, leaks=leaks
    )


def leaks_in(
    mask: Mask, text: str, subject: str = "", scaled: frozenset[str] = frozenset()
) -> Iterator[tuple[MaskKind, int, int]]:
    """Yield (kind, start, end) of what a text shows of the hidden. scaled: levels that are in it as they should."""
    if "names" in mask.kinds:
        yield from (("names", start, end) for start, end in _names_in(mask, text))
    if mask.dates is not None:
        yield from (("dates", start, end) for start, end in _dates_in(mask.dates.day, text))
    if "levels" in mask.kinds:
        yield from (("levels", start, end) for start, end in _levels_in(mask, text, subject, scaled))


def _names_in(mask: Mask, text: str) -> Iterator[tuple[int, int]]:
    for found in _SYMBOL.finditer(text):
        single = len(found[0]) == 1 and text[found.start() - 1 : found.start()] not in tuple('$(":')
        if found[0] in mask.listings and found[0] not in mask.real and not single:
            yield found.span()
    for pattern in _patterns(mask):
        yield from (found.span() for found in pattern.finditer(text))


def _patterns(mask: Mask) -> tuple[re.Pattern[str], ...]:
    return _compiled(tuple(sorted({name for one in mask.listings.values() for name in names_of(one)})))


@cache
def _compiled(names: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    """A name in capitals, and one that is a plain word too, counts where it is written so."""
    cased = [re.escape(name) for name in names if name.isupper() or (" " not in name and is_plain(name))]
    own = [re.escape(name) for name in names if re.escape(name) not in cased]
    groups = ((own, re.IGNORECASE), (cased, 0))
    return tuple(re.compile(rf"(?<!\w)(?:{'|'.join(some)})(?!\w)", flags) for some, flags in groups if some)


def _dates_in(day: dt.date, text: str) -> Iterator[tuple[int, int]]:
    for found in _YEAR.finditer(text):
        # A figure of money, of shares or of tokens is no year: one stands in words or in a date.
        if day.year - YEARS <= int(found[0]) <= day.year + 1 and not _is_figure(text, *found.span()):
            yield found.span()
    months = {f"{one:%y%m}" for one in _months(day)}
    for found in re.finditer(_ID, text):
        if found[0][1:5] in months:
            yield found.span()


def _is_figure(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start] in (":", "[", ",") and text[end : end + 1] in (",", "}", "]")


def _months(day: dt.date) -> Iterator[dt.date]:
    for back in range(12 * YEARS):
        number = day.year * 12 + day.month - 1 - back
        yield dt.date(number // 12, number % 12 + 1, 1)


def _levels_in(mask: Mask, text: str, subject: str, scaled: frozenset[str]) -> Iterator[tuple[int, int]]:
    """A price at which a name of the text traded, and which is no level as it was shown."""
    shown = {mask.real.get(found[0], found[0]) for found in _SYMBOL.finditer(text)} | {subject}
    prices = {price for one in shown & mask.listings.keys() for price in mask.prices(one) if float(price) >= 1}
    for found in _PRICE.finditer(text) if prices else ():
        number = Decimal(found[0].replace(",", "")).normalize()
        if f"{number:f}" in scaled or number != round(number, 2) or f"{number:.2f}" not in prices:
            continue
        if _OTHER.search(text[max(found.start() - _AROUND, 0) : found.start()]) is None:
            yield found.span()


def _near(text: str, start: int) -> str:
    return text[max(start - _AROUND, 0) : start + _AROUND]
