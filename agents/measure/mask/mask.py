"""What one run hides from its models, and how: the same in every process that has the run's key."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

import orjson

from chordesk.agents.measure.mask.known_names import Dates, invented_word, is_plain, kept_names, names_of, plain_words
from chordesk.models.market import Listing, parse_contract
from chordesk.models.money import CODES, MONEY_WORDS, SIGNS
from chordesk.models.settings.types import MaskKind
from chordesk.models.text import delimited, fenced, undelimited
from chordesk.tools.market.universe import is_symbol

# Fields of subjects, tool answers and answers of models that are amounts of money or prices, in one case and without
# underscores. What is not among them is shown as it is: a share, a ratio, a count, a volatility.
_MONEY = frozenset({
    "close", "price", "lastclose", "open", "ema12", "ema26", "macd", "macdsignal", "atr14", "bollingerupper",
    "bollingerlower", "sma20", "sma50", "sma200", "high252", "low252", "spot", "strike", "putskewstrike", "bid", "ask",
    "mid", "last", "theta", "vega", "breakeven", "slope", "now", "premium", "beststrike", "limitprice", "stopprice",
    "stop", "target", "entry", "notional", "most", "asked", "cash", "equity", "buyingpower", "capital",
    "maxordernotional", "averagecost", "marketprice", "marketvalue", "invalidationprice", "boughtvalue", "soldvalue",
    "netvalue", "epsestimate", "epsactual", "priortarget", "targetmean", "targetlow", "targethigh", "lasteps",
    "trailingeps", "forwardeps", "marketcap", "enterprisevalue", "bookvalue", "totalrevenue", "revenue", "netincome",
    "freecashflow", "operatingcashflow", "totalcash", "totaldebt", "ebitda", "grossprofits", "dividendrate",
    "trailingannualdividendrate", "fiftytwoweekhigh", "fiftytwoweeklow", "fiftydayaverage", "twohundreddayaverage",
    "revenueestimate", "earningsestimate", "maxsymbolnotional", "maxgrossnotional", "eps", "assets", "liabilities",
    "traded20", "gainofprice", "gainofcurrency", "costbase",
})  # fmt: skip
# Under these parents a name of the list is something else, a name is money that is none elsewhere, or all numbers are.
_SHARES_UNDER = dict.fromkeys(("signals", "passed"), frozenset({"sma20", "sma50"}))
_PRICES = frozenset({"open", "high", "low", "mean", "median"})
_AMOUNTS_UNDER = {
    "targets": _PRICES,
    "histories": _PRICES,
    "indicators": frozenset({"lower", "upper"}),
    "trades": frozenset({"value"}),
}
_NAMED = re.compile(r"""(["'])(\w+)\1\s*:\s*(-?\d+(?:\.\d+)?)""")
CENT = Decimal("0.01")
LEAST_WHOLE = 1000  # a whole number below it is a count as well as a level
INVERSE = frozenset({"gamma"})  # for one unit of money: by the factor the other way


def is_money(name: str, parents: tuple[str, ...] = ()) -> bool:
    plain = re.sub(r"[\W_]", "", name).lower()
    if any(plain in _SHARES_UNDER.get(one, ()) for one in parents):
        return False
    if any(plain in _AMOUNTS_UNDER.get(one, ()) for one in parents):
        return True
    return plain in _MONEY or "bounds" in parents


Rounding = Callable[[Decimal, int], Decimal]


class Levels:
    """The scale of one conversation's money. factor: a power of two, so that a product has the same digits in the other
    direction, ratios are equal to the last bit, and a figure of so many decimals keeps their number."""

    def __init__(self, factor: int) -> None:
        self.factor = factor
        self._sent: dict[Decimal, Decimal] = {}  # what was shown, and what it was
        self._real: set[Decimal] = set()
        self._other: set[Decimal] = set()  # figures that are shown as they are

    def scaled(self) -> list[str]:
        """Return the levels as they were shown."""
        return [f"{one.normalize():f}" for one in self._sent]

    def hide(self, value: float) -> float:
        self.note(value)
        return value * self.factor

    def note(self, value: float) -> None:
        """Remember a level, so that it is known where it stands in a text."""
        if (exact := _decimal(value)) is not None:
            self._sent[exact * self.factor] = exact
            self._real.add(exact)

    def plain(self, value: float) -> None:
        if (exact := _decimal(value)) is not None:
            self._other.add(exact)

    def hides(self, text: str) -> bool:
        """Return whether a figure in a text is one of the levels."""
        return self._match(text, self._real) is not None

    def hidden(self, text: str) -> str:
        return _as(text, Decimal(text.replace(",", "")) * self.factor)

    def known(self, text: str) -> str | None:
        """Return the level that a model was shown as this figure, rounded or cut as it has it."""
        if (found := self._match(text, self._sent)) is None:
            return None
        shown, rounded = found
        return _as(text, rounded(self._sent[shown], _places(Decimal(text.replace(",", "")))))

    def restored(self, text: str) -> str:
        """Return an amount in money of the house: a level that was shown as it was, of any other never more than was
        written."""
        number = Decimal(text.replace(",", ""))
        exact = number / self.factor
        for unit in (_unit(number), CENT):
            if (found := exact.quantize(unit, ROUND_FLOOR)) == exact:
                return _as(text, found)
        return _as(text, exact.normalize() if number in self._sent or not found else found)

    def _match(self, text: str, among: Collection[Decimal]) -> tuple[Decimal, Rounding] | None:
        """Return the level that a figure is, and how it was rounded to it; None where it may be another figure."""
        number = Decimal(text.replace(",", ""))
        places = _places(number)
        if number in self._other or (places < 1 and abs(number) < LEAST_WHOLE):
            return None
        if number in among:
            return number, _nearest
        if places < 1 or any(_rounds(one, number, _nearest) for one in self._other):
            return None
        ways = ((one, how) for how in (_nearest, _cut) for one in among)
        return next(((one, how) for one, how in ways if _rounds(one, number, how)), None)


def _rounds(one: Decimal, number: Decimal, how: Rounding) -> bool:
    return abs(one - number) < _unit(number) and how(one, _places(number)) == number


def _nearest(level: Decimal, places: int) -> Decimal:
    """As a binary figure is written: half a cent goes with the digits that the figure really has."""
    return Decimal(f"{float(level):.{places}f}")


def _cut(level: Decimal, places: int) -> Decimal:
    return level.quantize(Decimal(1).scaleb(-places), ROUND_FLOOR)


def named_figures(text: str) -> dict[int, bool]:
    """Return where a figure stands beside its name in a text, as JSON has it, and whether it is money."""
    return {found.start(3): is_money(found[2]) for found in _NAMED.finditer(text)}


def _places(number: Decimal) -> int:
    return max(-int(number.as_tuple().exponent), 0)


def _unit(number: Decimal) -> Decimal:
    return Decimal(1).scaleb(-_places(number))


def _decimal(value: float) -> Decimal | None:
    try:
        found = Decimal(repr(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _as(text: str, number: Decimal) -> str:
    """Write a number as a text has its own: with commas or without."""
    return f"{number:,f}" if "," in text else f"{number:f}"


# Tools whose answers are the desk's own figures, or outside texts that can be masked word by word. Any other tool is
# refused by its name: a page's text or a filing's title, number and address cannot be hidden.
MASKED_TOOLS = frozenset({
    "universe_list", "sp500_movers", "company_get", "technicals_get", "signals_get", "news_list", "news_index",
    "volatility_get", "options_unusual", "report_latest", "option_chain_get", "option_greeks_get", "price_history_get",
    "chart_study_get", "chart_render", "earnings_dates", "short_interest", "analyst_ratings", "insider_trades",
    "portfolio_get", "orders_preview",
})  # fmt: skip
FACTORS = (4, 8, 16, 32)
WITHHELD = "(withheld: the desk knows no name of this company to hide)"
UNKNOWN = "?"  # after a real symbol that a model wrote: it is none of the names that it was shown
_SYMBOL_KEYS = frozenset(
    {"symbol", "symbols", "about", "names", "portfolio", "candidates", "sameCompany", "likelySame"}
)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD = re.compile(r"[A-Za-z0-9][\w.&'\u2019]*")
_AMOUNT = re.compile(r"\d{1,3}(?:,\d{3})+\.\d\d")  # as the desk's prompts write money
_ENDING = re.compile(r"(?:['\u2019]s|[.&'\u2019])+$")
_ID = re.compile(r"[A-Z]{1,4}-?[\d.]+(?:-[a-z]+)?")  # of a level or an indicator, such as F61.8 or RSI-14
_URL = re.compile(r"(?:https?://|www\.)\S+")
_NUMBER = r"(?<![\w.,-])\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.,-])\d+(?:\.\d+)?"
_FIGURE = re.compile(
    rf"(?P<money>(?:{SIGNS}|{CODES} )\s?)?(?P<number>{_NUMBER})(?![\d.,]*\d|\s?%|x\b)"
    rf"(?P<after>\s?(?:{CODES}|{MONEY_WORDS})\b)?"
)
_OCC = re.compile(r"\b[A-Z]{1,6} *\d{6}[CP]\d{8}\b")
_SWING = re.compile(r"(?<![A-Z0-9])([HL])(\d{6})(\d{4})?(?![A-Z0-9])")
_ASKED_SYMBOL = re.compile(r'("(?:symbol|contract)"\s*:\s*")([A-Z0-9.&-]+)(")')


_DATA = re.compile(r"^```(?:subject|answers)\n(.*?)\n```", re.DOTALL | re.MULTILINE)


class Mask:
    """The mask of one run. listings: of all names that it may meet; day: of its market; key: of the run alone;
    prices: returns at what a symbol traded lately, with two decimals."""

    def __init__(
        self, kinds: Iterable[MaskKind], key: bytes, listings: Iterable[Listing], day: dt.date,
        prices: Callable[[str], frozenset[str]] = lambda _symbol: frozenset(),
    ) -> None:  # fmt: skip
        self.kinds, self.key, self.prices = frozenset(kinds), key, prices
        self.listings = {one.symbol: one for one in listings}
        self.dates = Dates(key, day) if "dates" in self.kinds else None
        self.factor = FACTORS[hmac.digest(key, b"factor", hashlib.sha256)[0] % len(FACTORS)]
        real = sorted(self.listings) if "names" in self.kinds else []
        # In the same order as the real ones: what sorts by symbol, such as a tie of two scores, goes as it would.
        self.invented = dict(zip(real, self._symbols(len(real)), strict=True))
        self.real = {invented: symbol for symbol, invented in self.invented.items()}
        self.words: dict[str, str] = {}  # by invented name, the company's first
        self.phrases: dict[str, list[tuple[str, str]]] = {}  # by first word in lower case, names with what hides them
        for symbol in real:
            names = names_of(self.listings[symbol])
            for name in names:
                # What the company itself is called has one word, its people and products have their own.
                word = invented_word(key, symbol if _first_word(name) == _first_word(names[0]) else name)
                self.words.setdefault(word, name)
                self.phrases.setdefault(_first_word(name), []).append((name, word))
        for found in self.phrases.values():
            found.sort(key=lambda one: len(one[0]), reverse=True)

    def _symbols(self, count: int) -> list[str]:
        taken = {*self.listings, *kept_names()}
        found: set[str] = set()
        for number in itertools.count():
            if len(found) == count:
                return sorted(found)
            digest = hmac.digest(self.key, f"symbol {number}".encode(), hashlib.sha256)
            text = "".join(_LETTERS[one % 26] for one in digest[:4])
            if text not in taken and not is_plain(text):
                found.add(text)
        raise AssertionError

    def symbol(self, real: str) -> str:
        """Return the invented symbol; one of a name that no listing has, too."""
        if "names" not in self.kinds or real in self.real:
            return real
        if real not in self.invented:
            word = invented_word(self.key, f"symbol {real}").upper()[:5]
            self.invented[real], self.real[word] = word, real
        return self.invented[real]

    def has_names(self, symbol: str) -> bool:
        return symbol in self.listings and bool(names_of(self.listings[symbol]))

    def withheld(self, tool: str) -> str | None:
        if tool in MASKED_TOOLS:
            return None
        return f"{tool} is withheld by DESK_MASK: what it gives cannot be masked"

    def drawn(self, panel: Any) -> Any:
        """Return a chart's panel as a model sees it: its title, days and prices."""
        talk = Talk(self)
        scale = self.factor if "levels" in self.kinds else 1
        bars = replace(
            panel.bars, symbol=self.symbol(panel.bars.symbol),
            dates=[self.dates.shift(day) if self.dates is not None else day for day in panel.bars.dates],
            **{name: getattr(panel.bars, name) * scale for name in ("open", "high", "low", "close")},
        )  # fmt: skip
        marks = [
            one._replace(id=talk.hide_text(one.id), **{name: getattr(one, name) * scale for name in _PRICES_OF_A_MARK})
            for one in panel.marks
        ]
        segments = [
            replace(one, start=(one.start[0], one.start[1] * scale), end=(one.end[0], one.end[1] * scale))
            for one in panel.segments
        ]
        title, _, close = panel.title.rpartition("  close ")
        return replace(
            panel, title=f"{talk.hide_text(title)}  close {float(close) * scale:.2f}", bars=bars, marks=marks,
            segments=segments, swings=[(at, price * scale, high) for at, price, high in panel.swings],
            series={name: values * scale for name, values in panel.series.items()},
        )  # fmt: skip


_PRICES_OF_A_MARK = ("price", "low", "high")


def _first_word(name: str) -> str:
    found = _WORD.search(name)
    return found[0].lower() if found is not None and found.start() == 0 else name[:1].lower()


class Talk:
    """One conversation under a mask: what it was shown is put back as it was."""

    def __init__(self, mask: Mask) -> None:
        self.mask = mask
        self.levels = Levels(mask.factor)
        self._symbols: set[str] = set()  # that it was shown
        self._back: dict[str, str] = {}  # words and dates in words, as they were shown

    # What goes out

    def hide(self, value: Any) -> Any:
        """Return JSON data as the model is shown it. A text may name a level that stands after it in the data: all of
        them are gone through twice."""
        self._hidden(value, (), None)
        return self._hidden(value, (), None)

    def _hidden(self, value: Any, parents: tuple[str, ...], columns: list[str] | None) -> Any:
        """parents: the names that lead to the value."""
        name = parents[-1] if parents else ""
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._hide_figure(name, value, parents[:-1])
        if isinstance(value, str):
            if value in self.mask.listings and name in _SYMBOL_KEYS:
                self._symbols.add(value)
            return self._hide_string(name, value)
        if isinstance(value, Mapping):
            own = value.get("columns")
            columns = own if isinstance(own, list) else columns
            found = {self._hide_key(key): self._hidden(item, (*parents, key), columns) for key, item in value.items()}
            if "headline" in found and not self._may_tell(value):
                found["headline"] = WITHHELD
            return found
        if name == "rows" and columns is not None:
            return [
                [self._hidden(cell, (*parents, title), None) for title, cell in zip(columns, row, strict=True)]
                for row in value
            ]
        return [self._hidden(item, parents, columns) for item in value]

    def _may_tell(self, row: Mapping[str, Any]) -> bool:
        symbol = row.get("symbol")
        return "names" not in self.mask.kinds or not isinstance(symbol, str) or self.mask.has_names(symbol)

    def _hide_key(self, key: str) -> str:
        if key in self.mask.invented:
            return self.mask.symbol(key)
        return self.hide_text(key) if " " in key or key[:1].isdigit() else key

    def _hide_figure(self, name: str, value: float, parents: tuple[str, ...]) -> float:
        if "levels" not in self.mask.kinds:
            return value
        if name in INVERSE:
            return value / self.mask.factor
        if is_money(name, parents):
            return self.levels.hide(value)
        self.levels.plain(value)
        return value

    def _hide_string(self, name: str, value: str) -> str:
        if "names" in self.mask.kinds:
            if name == "company" and value:
                return hmac.digest(self.mask.key, value.encode(), hashlib.sha256).hex()[:12]
            if name == "url":
                return "(withheld)"
            if value in self.mask.invented or (name in _SYMBOL_KEYS and is_symbol(value)):
                return self.mask.symbol(value)
        if value.isalpha() and value.islower():
            return value  # a word of the desk's own, such as `up`
        inner = undelimited(value)
        return self.hide_text(value) if inner is None else delimited(self.hide_text(inner))

    def hide_prompt(self, text: str) -> str:
        """Return a message with the data of its subject, and of the answers of tools in it, masked by their names, and
        the text around them as any text."""
        parts, end = list[str](), 0
        for found in _DATA.finditer(text):
            parts += [self.hide_text(text[end : found.start(1)]), fenced(self.hide(orjson.loads(found[1])))]
            end = found.end(1)
        return "".join((*parts, self.hide_text(text[end:])))

    def hide_text(self, text: str) -> str:
        if "names" in self.mask.kinds:
            text = _URL.sub("(withheld)", text)
        if "levels" in self.mask.kinds:
            text = self._hide_levels(text)
        text = _OCC.sub(lambda found: self._contract(found[0], self.mask.symbol, 1), text)
        if self.mask.dates is not None:
            text = _SWING.sub(lambda found: self._swing(found, 1), text)
            text = self.mask.dates.hide(text, self._back)
        return self._hide_words(text) if "names" in self.mask.kinds else text

    def _hide_levels(self, text: str) -> str:
        named = named_figures(text)

        def hidden(found: re.Match[str]) -> str:
            number, place = found["number"], found.start("number")
            marked = (
                found["money"]
                or found["after"]
                or _AMOUNT.fullmatch(number)
                or self.levels.hides(number)
                or self._was_traded(number)
            )
            if not named.get(place, marked):
                return found[0]
            self.levels.note(float(number.replace(",", "")))
            return f"{found['money'] or ''}{self.levels.hidden(number)}{found['after'] or ''}"

        return _FIGURE.sub(hidden, text)

    def _was_traded(self, number: str) -> bool:
        return "." in number and any(number in self.mask.prices(one) for one in self._symbols)

    def _hide_words(self, text: str) -> str:
        parts, end = [], 0
        for found in _WORD.finditer(text):
            if found.start() < end:
                continue
            start, shown = found.start(), None
            if (known := self._phrase(text, start, found[0])) is not None:
                name, shown = known
                stop = start + len(name)
            else:
                word = _ENDING.sub("", found[0])
                stop = start + len(word)
                shown = self._hide_word(text, start, word)
            if shown is not None:
                parts += [text[end:start], shown]
                end = stop
        return "".join([*parts, text[end:]])

    def _phrase(self, text: str, start: int, word: str) -> tuple[str, str] | None:
        stem = _ENDING.sub("", word).lower()
        firsts = dict.fromkeys((word.lower(), stem, re.split(r"[.&'\u2019]", stem)[0]))
        names = (pair for first in firsts for pair in self.mask.phrases.get(first, ()))
        for name, shown in sorted(names, key=lambda one: len(one[0]), reverse=True):
            written = text[start : start + len(name)]
            after = text[start + len(name) : start + len(name) + 1]
            plain = name.isalpha() and is_plain(name)
            named = written == name if name.isupper() else not plain or any(letter.isupper() for letter in written)
            if written.lower() == name.lower() and not after.isalnum() and named:
                self._back[shown] = written
                return written, shown
        return None

    def _hide_word(self, text: str, start: int, word: str) -> str | None:
        if word in self.mask.invented and (
            len(word) > 1 or word not in "AI" or text[start - 1 : start] in tuple("($:")
        ):
            return self.mask.symbol(word)
        if word in self.mask.real or word in self.mask.words or is_plain(word) or len(word) < 2 or word in self._back:
            return None
        if not any(letter.isupper() for letter in word) or "_" in word or (word[0].islower() and not _is_brand(word)):
            return None
        if word[0].isdigit() or _ID.fullmatch(word) or _OCC.fullmatch(word):
            return None
        shown = invented_word(self.mask.key, word, self.mask.words)
        self._back[shown] = word
        return shown

    # What comes back

    def restore(self, value: Any, name: str = "") -> Any:
        """Return the arguments of a call in words and figures of the house."""
        if isinstance(value, Mapping):
            return {key: self.restore(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.restore(item, name) for item in value]
        if isinstance(value, str):
            if name in ("symbol", "symbols"):
                return self._asked(value.strip().upper())
            return self.restore_text(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_money(name):
            return value
        return float(self.levels.restored(repr(value))) if "levels" in self.mask.kinds else value

    def _asked(self, symbol: str) -> str:
        if "names" not in self.mask.kinds:
            return symbol
        return self.mask.real.get(symbol) or (symbol + UNKNOWN if symbol in self.mask.invented else symbol)

    def restore_text(self, text: str) -> str:
        """Return what a model wrote in words and figures of the house. A real symbol, which it was never shown, becomes
        one that no rule takes."""
        if "names" in self.mask.kinds:
            text = _ASKED_SYMBOL.sub(lambda found: f"{found[1]}{self._real_of(found[2])}{found[3]}", text)
        text = _OCC.sub(lambda found: self._contract(found[0], lambda one: self.mask.real.get(one, one), -1), text)
        if "levels" in self.mask.kinds:
            text = self._restore_levels(text)
        if self.mask.dates is not None:
            text = _SWING.sub(lambda found: self._swing(found, -1), text)
            text = self.mask.dates.restore(text, self._back)
        return _WORD.sub(self._restored_word, text) if "names" in self.mask.kinds else text

    def _real_of(self, symbol: str) -> str:
        known = symbol in self.mask.real or symbol not in self.mask.invented
        return symbol if known else symbol + UNKNOWN

    def _restored_word(self, found: re.Match[str]) -> str:
        word = found[0]
        for stem in (word, _ENDING.sub("", word), re.split(r"[.&'\u2019]", word)[0]):
            for known in (self.mask.real, self._back, self.mask.words):
                if stem in known:
                    return known[stem] + word[len(stem) :]
        return word

    def _restore_levels(self, text: str) -> str:
        named = named_figures(text)
        written = (_FIGURE.match(text, at) for at, is_amount in named.items() if is_amount)
        amounts = {float(found["number"]) for found in written if found is not None}

        def back(found: re.Match[str]) -> str:
            number, place = found["number"], found.start("number")
            if not named.get(place, True):
                return found[0]
            if place in named or float(number.replace(",", "")) in amounts:
                shown = self.levels.restored(number)
            elif (known := self.levels.known(number)) is not None:
                shown = known
            else:
                shown = self.levels.restored(number) if found["money"] or found["after"] else number
            return f"{found['money'] or ''}{shown}{found['after'] or ''}"

        return _FIGURE.sub(back, text)

    def _contract(self, text: str, symbol: Callable[[str], str], way: int) -> str:
        if (found := parse_contract(text)) is None:
            return text
        root = symbol(found.underlying)
        days = self.mask.dates.days * way if self.mask.dates is not None else 0
        day = found.expiry + dt.timedelta(days=days)
        factor = Decimal(self.mask.factor if "levels" in self.mask.kinds else 1) ** way
        return f"{root}{day:%y%m%d}{found.kind[0].upper()}{int(found.strike * factor * 1000):08d}"

    def _swing(self, found: re.Match[str], way: int) -> str:
        assert self.mask.dates is not None
        try:
            day = dt.datetime.strptime(found[2], "%y%m%d") + dt.timedelta(days=self.mask.dates.days * way)
        except ValueError:
            return found[0]
        return f"{found[1]}{day:%y%m%d}{found[3] or ''}"


def _is_brand(word: str) -> bool:
    """Return whether a word has its capital inside after one or two letters, as iPhone and eBay."""
    return re.fullmatch(r"[a-z]{1,2}[A-Z][a-z]+", word) is not None and word.lower() not in plain_words()
