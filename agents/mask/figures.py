"""Which figures are money, and how levels are scaled and put back."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from decimal import ROUND_FLOOR, Decimal, InvalidOperation

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
})  # fmt: skip
# Under these parents a name of the list is something else, a name is money that is none elsewhere, or all numbers are.
_SHARES_UNDER = {"signals": frozenset({"sma20", "sma50"})}
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
