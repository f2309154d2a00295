"""How a table writes numbers and days: decided from all cells of a file, with proofs for and against, never from one.

`Survey` collects the evidence of every part of a file; `Survey.decided` weighs it and returns the `Notation` by which
the cells are written anew in one form: decimals with a point, no thousands marks, days as YYYY-MM-DD. What two meanings
fit, or what contradicts itself within the file, raises `Ambiguous` with the cell and its row.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chordesk.models.text import NEW_YORK
from chordesk.tools.market.home import foreign

# session: a day on which the exchange may be open; count: a number that is whole, such as a volume
Kind = Literal["text", "number", "count", "day", "session", "moment"]
NUMBERS: frozenset[Kind] = frozenset({"number", "count"})
DAYS: frozenset[Kind] = frozenset({"day", "session", "moment"})
Order = Literal["dmy", "mdy", "ymd"]
Mark = Literal[".", ","]


class Cell(NamedTuple):
    row: int
    column: str  # ours
    text: str

    def __str__(self) -> str:
        return f"row {self.row} {self.text[:40]!r}"


class Ambiguous(ValueError):
    """The file's notation has two meanings, or contradicts itself; the message says how, the cell where."""

    def __init__(self, message: str, cell: Cell) -> None:
        super().__init__(message)
        self.cell = cell


# Numbers

# What programs write for a number that is missing. A symbol is never one of them: NA and NAN are names.
EMPTY = frozenset(
    {"", "null", "(null)", "none", "nan", "nat", "nil", "n/a", "na", "n.a.", "n.a", "#n/a", "#na", "#nv", "#value!"}
    | {"-", "--", "---", "\u2013", "\u2014", "\u2212", ".", "k.a.", "\\n"}
)
_GROUPS = " \u00a0\u202f\u2009'\u2019"  # thousands marks that are never decimal marks
_SCALES = {
    "k": 3, "tsd": 3, "lakh": 5, "m": 6, "mn": 6, "mln": 6, "mio": 6, "cr": 7, "crore": 7, "b": 9, "bn": 9, "bln": 9,
    "md": 9, "mld": 9, "mrd": 9, "t": 12,
}  # fmt: skip
_DOLLARS = r"US\$|USD|\$"
_MONEY = rf"{_DOLLARS}|[€£¥₹]|EUR|GBP|CHF|JPY|CAD|AUD|HKD|INR"
_CODES = {"€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_WRITTEN = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[+\-\u2212])?\s*(?P<money>{_MONEY})?\s*(?P<sign2>[+\-\u2212])?\s*"
    rf"(?P<body>\d[\d.,{_GROUPS}]*|[.,]\d+)(?P<power>[eE][+-]?\d{{1,3}})?\s*"
    rf"(?:(?P<scale>{'|'.join(sorted(_SCALES, key=len, reverse=True))})\.?)?\s*(?P<money2>{_MONEY})?\s*"
    r"(?P<close>\))?(?P<after>[-\u2212])?",
    re.ASCII | re.IGNORECASE,
)
_DIGITS_AND_DOTS = re.compile(r"[0-9.\n+-]*", re.ASCII)
_MARKS_ALONE = re.compile(r"^[+\-.]+$", re.M)
_TWO_DOTS = re.compile(r"\.\d*\.", re.ASCII)
_DECIMAL_DOT = re.compile(r"^[+-]?(?:\d{1,3}\.(?:\d{0,2}|\d{4,})|0\d*\.\d+|\d{4,}\.\d*|\.\d+)$", re.M | re.ASCII)
_EITHER_DOT = re.compile(r"^[+-]?[1-9]\d{0,2}\.\d{3}$", re.M | re.ASCII)
_UNGROUPED = re.compile(r"^[+-]?\d{4}", re.M | re.ASCII)
_WHOLE = re.compile(r"^[+-]?[1-9]\d{0,2}$", re.M | re.ASCII)
_OTHER: Mapping[Mark, Mark] = {".": ",", ",": "."}
_NAMES: Mapping[Mark, str] = {".": "decimal points", ",": "decimal commas"}


_LONGEST = 80  # characters of a number or a day; longer texts are neither, and matching them takes long


def _written(text: str) -> re.Match[str] | None:
    text = bare(text)
    return _WRITTEN.fullmatch(text) if len(text) <= _LONGEST else None


def money_of(text: str) -> str | None:
    """Return the sign or letters of the currency that is written beside a number; None of a number alone."""
    written = _written(text)
    found = None if written is None else written["money"] or written["money2"]
    return found.upper() if found else None


def bare(text: str) -> str:
    """Return a cell without what spreadsheets write around a text: ="2024-01-02", '180.50."""
    text = text.strip()
    if text.startswith('="') and text.endswith('"'):
        text = text[2:-1].strip()
    return text.strip("'") if text[:1] == "'" else text


@dataclass(slots=True)
class _Numbers:
    """What one column shows. either: its first cell whose mark may be of decimals or of thousands."""

    kind: Kind
    odd: bool = False  # some cell is not digits, one point and a sign
    ungrouped: Cell | None = None  # four digits in a row before any mark: the column does not group
    whole: Cell | None = None  # at most three digits, and no mark
    abroad: Cell | None = None  # with the mark of another currency than the dollar
    proofs: dict[Mark, Cell] = field(default_factory=dict)  # of the decimal mark
    either: dict[Mark, Cell] = field(default_factory=dict)

    def see(self, column: str, cells: Sequence[str], rows: Sequence[int]) -> None:
        joined = "\n".join(cells)
        if not _DIGITS_AND_DOTS.fullmatch(joined) or _TWO_DOTS.search(joined) or _MARKS_ALONE.search(joined):
            self.odd = True
            for text, row in zip(cells, rows, strict=True):
                self._see(Cell(row, column, bare(text)))
            return
        if self.ungrouped is None:
            self.ungrouped = _first(column, joined, rows, _UNGROUPED)
        if "." in joined:
            for pattern, kept in ((_DECIMAL_DOT, self.proofs), (_EITHER_DOT, self.either)):
                known = "." in self.proofs or "." in kept
                if not known and (cell := _first(column, joined, rows, pattern)) is not None:
                    kept["."] = cell
        if self.whole is None and not self.proofs:
            self.whole = _first(column, joined, rows, _WHOLE)

    def _see(self, cell: Cell) -> None:
        written = _written(cell.text)
        if written is None:
            return
        money = written["money"] or written["money2"]
        if self.abroad is None and money and not re.fullmatch(_DOLLARS, money, re.IGNORECASE):
            self.abroad = cell
        body = written["body"].rstrip(_GROUPS)
        spaced = any(mark in _GROUPS for mark in body)
        body = re.sub(f"[{_GROUPS}]", "", body)
        dots, commas = body.count("."), body.count(",")
        if not dots and not commas:
            if not spaced and len(body) > 3 and self.ungrouped is None:
                self.ungrouped = cell
            if len(body) <= 3 and body[0] != "0" and self.whole is None:
                self.whole = cell
            return
        last: Mark = "." if body.rfind(".") > body.rfind(",") else ","
        if dots and commas:
            self.proofs.setdefault(last, cell)
            return
        if body.count(last) > 1:
            self.proofs.setdefault(_OTHER[last], cell)
            return
        whole, _, part = body.partition(last)
        if spaced or len(part) != 3 or not whole or whole[0] == "0" or len(whole) > 3 or written["power"]:
            self.proofs.setdefault(last, cell)
        else:
            self.either.setdefault(last, cell)

    def proven(self) -> Mark | None:
        """Return the decimal mark that the column alone proves. Raises Ambiguous where it proves both."""
        if len(self.proofs) > 1:
            raise _contradiction(self.proofs)
        return next(iter(self.proofs), None)


def _first(column: str, joined: str, rows: Sequence[int], pattern: re.Pattern[str]) -> Cell | None:
    if (found := pattern.search(joined)) is None:
        return None
    at = joined.count("\n", 0, found.start())
    return Cell(rows[at], column, joined[found.start() :].partition("\n")[0])


def _contradiction(proofs: Mapping[Mark, Cell]) -> Ambiguous:
    first, second = sorted(proofs, key=lambda mark: proofs[mark].row)
    message = f"{proofs[second].text[:40]!r} shows {_NAMES[second]}, and {proofs[first]} {_NAMES[first]}"
    return Ambiguous(f"{message}; write all numbers in one way", proofs[second])


class _Decided(NamedTuple):
    """The decimal mark of a file's prices. guess: a cell whose reading nothing but a custom of files decides."""

    mark: Mark
    guess: Cell | None = None


def _of_prices(columns: Mapping[str, _Numbers], delimiter: str) -> _Decided:
    """Return the decimal mark of all columns that are not counts. Raises Ambiguous for two marks, and for one that may
    be of thousands.

    Proof for a mark: it follows another, is followed by other than three digits, or by three after a leading zero or
    more than three digits; the other mark repeated. Three digits after one mark are no proof. Where nothing among the
    prices decides, the counts do: they prove a mark, or their marks are of thousands and are not those of the prices.
    Then a column with four digits in a row shows that the file does not group. Last come the customs: a semicolon
    between cells goes with decimal commas, any other delimiter with decimal points. Where a column has whole numbers of
    at most three digits beside 1.070, neither reading is safe: the decimals would be there sometimes, and not always.
    """
    prices = [one for one in columns.values() if one.kind != "count"]
    counts = [one for one in columns.values() if one.kind == "count"]
    proofs: dict[Mark, Cell] = {}
    for one in prices:
        for mark, cell in one.proofs.items():
            if mark not in proofs or cell.row < proofs[mark].row:
                proofs[mark] = cell
    if len(proofs) > 1:
        raise _contradiction(proofs)
    if proofs:
        return _Decided(next(iter(proofs)))
    either = [(one, mark, cell) for one in prices for mark, cell in one.either.items()]
    marks = {mark for _, mark, _ in either}
    proven: set[Mark] = {shown for one in counts if (shown := one.proven()) is not None}
    if not marks:
        return _Decided(proven.pop() if len(proven) == 1 else ".")
    _, mark, cell = either[0]
    if len(marks) > 1:
        raise _unclear(next(cell for _, mark, cell in either if mark == ","))
    if mark in proven:
        return _Decided(mark)
    if any(one.whole is not None for one, _, _ in either):
        if _OTHER[mark] in proven:
            return _Decided(_OTHER[mark])  # 985 and 1.070 beside 1.200.000: the point is of thousands
        raise _unclear(cell)
    if _OTHER[mark] in proven or any(mark in one.either for one in counts):
        raise _unclear(cell)
    if any(_OTHER[mark] in one.either for one in counts) or any(one.ungrouped for one in columns.values()):
        return _Decided(mark)
    if (mark == ",") != (delimiter == ";"):
        raise _unclear(cell)
    return _Decided(mark, cell if delimiter else None)  # JSON and Parquet have numbers with points


def _unclear(cell: Cell) -> Ambiguous:
    mark = "," if "," in cell.text else "."
    meant = cell.text[:40].replace(mark, "")
    return Ambiguous(
        f"{cell.text[:40]!r} may be {meant} or {cell.text[:40].replace(mark, '.')}, and no other number of the file "
        f"shows which; write {meant} or {cell.text[:40].replace(mark, '.')}0",
        cell,
    )


def plain_number(text: str, decimal: Mark) -> str:
    """Return a number as digits with a decimal point, negative with a minus; the text itself where it is no number, and
    nothing for a word that stands for a missing one."""
    written = _written(text)
    if written is None:
        return "" if text.strip().lower() in EMPTY else text
    group = _OTHER[decimal]
    whole, mark, part = written["body"].rstrip(_GROUPS).partition(decimal)
    pieces = re.split(f"[{re.escape(group)}{_GROUPS}]", whole)
    grouped = len(pieces) > 1
    if (part and not part.isdigit()) or not all(one.isdigit() for one in pieces if one or grouped):
        return text
    if grouped and not _is_grouped(pieces):
        return text
    if bool(written["open"]) != bool(written["close"]) or (written["sign"] and written["sign2"]):
        return text
    signs = (written["sign"] or written["sign2"] or "", written["after"] or "", "-" if written["open"] else "")
    negative = any(sign in ("-", "\u2212") for sign in signs if sign)
    digits = "".join(pieces) + (f".{part}" if mark and part else "")
    tens = _SCALES[written["scale"].lower()] if written["scale"] else 0
    tens += int(written["power"][1:]) if written["power"] else 0
    if tens:
        digits = f"{Decimal(digits or '0').scaleb(tens):f}"
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"-{digits}" if negative else digits


def _is_grouped(pieces: Sequence[str]) -> bool:
    """Whether the pieces between marks are thousands, or lakhs and crores as in 12,34,567."""
    middle = {len(one) for one in pieces[1:-1]}
    return len(pieces[-1]) == 3 and ((len(pieces[0]) <= 3 and middle <= {3}) or (len(pieces[0]) <= 2 and middle == {2}))


# Days

_ISO = re.compile(
    r"(?:\d{4}-(?:0\d|1[0-2])-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?\n)*", re.ASCII
)
_YEAR_FIRST = re.compile(r"(\d{4})[-/. ](\d{1,2})[-/. ](\d{1,2})(?:(?:[T,;]|\s)\s*(.*))?", re.ASCII)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:[T;,\s]?\s*(\d{6})|[T;,\s]\s*(.*))?", re.ASCII)
_THREE = re.compile(r"(\d{1,2})([/.\-])(\d{1,2})\2(\d{4}|\d{2})(?:[T,;\s]\s*(\d.*))?", re.ASCII)
_EPOCH = re.compile(r"(?:\d{9,10}|\d{12,13}|\d{15,16}|\d{18,19})(?:\.\d+)?", re.ASCII)
_SERIAL = re.compile(r"(\d{5})(\.\d+)?", re.ASCII)
_WORDS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
# Beginnings of months in German, French, Spanish, Italian, Portuguese, Dutch, Polish, Turkish and Russian.
_LOCAL = {
    name: at
    for at, names in enumerate(
        (
            "janv jän ene gen sty oca янв", "fév fev lut şub фев", "mär mrz maa mrt мар", "avr abr kwi nis апр",
            "mai mag maj mei май мая", "juin giu cze haz июн", "juil lug lip tem июл", "aoû aou ago sie ağu авг",
            "set wrz eyl сен", "okt ott out paź paz eki окт", "lis kas ноя", "dez déc dic gru ara дек",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_MONTHS = {**{name: at for at, name in enumerate(_WORDS, 1)}, **_LOCAL}
_WORD_BEFORE = re.compile(r"^[^\W\d_]{2,12}\.?,?\s+(?=\d|[^\W\d_])")
_WORD_AFTER = re.compile(r",?\s+[^\W\d_]{2,12}\.?$")
_IN_CHINESE = str.maketrans({"年": "-", "月": "-", "日": ""})
_MONTH, _AFTER = r"(?P<month>[^\W\d_]{3,12})", r"(?:[,T]?\s+(?P<rest>.*))?"
_NAMED = (
    re.compile(rf"{_MONTH}\.?[\s\-/]+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[,\s\-/]+(?P<year>\d{{4}}|\d{{2}}){_AFTER}"),
    re.compile(
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?[\s\-/]?\s*(?:de\s+)?{_MONTH}\.?,?[\s\-/]?\s*(?:de\s+)?"
        rf"(?P<year>\d{{4}}|\d{{2}}){_AFTER}"
    ),
    re.compile(rf"(?P<year>\d{{4}})[\s\-/]{_MONTH}[\s\-/](?P<day>\d{{1,2}}){_AFTER}"),
    re.compile(rf"{_MONTH}\s+(?P<day>\d{{1,2}})\s+(?P<rest>\d{{1,2}}:\d\d:\d\d(?: [A-Z]{{3,4}})?)\s+(?P<year>\d{{4}})"),
)
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<zone>\S.*)?"
)
_HALF = re.compile(r"(?P<hour>\d{1,2})\s*(?P<half>[AaPp]\.?[Mm]\.?)", re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{2}):?(\d{2})?")
_BRACKETS = re.compile(r"\s*\(.*\)$")
_ZONES = {
    "Z": "+00:00", "UTC": "+00:00", "GMT": "+00:00", "EST": "-05:00", "EDT": "-04:00", "PST": "-08:00", "PDT": "-07:00",
}  # fmt: skip
_ORDERS: tuple[Order, ...] = ("dmy", "mdy", "ymd")
_MEANS = {"dmy": "the day first", "mdy": "the month first", "ymd": "the year first"}
_PIVOT, _AHEAD = 70, 20  # years of two digits; years that a day may lie ahead, as an expiry does
_SERIAL_STARTS = (dt.date(1899, 12, 30), dt.date(1904, 1, 1))  # Excel's two calendars
_FEW_SERIALS = 5
_MIXED = 3  # cells of each form from which a spreadsheet may have exchanged days and months


def _year(text: str) -> int:
    return int(text) if len(text) > 2 else int(text) + (2000 if int(text) < _PIVOT else 1900)


def _in_order(fields: tuple[str, str, str], order: Order) -> dt.date | None:
    first, second, third = fields
    year, month, day = {"dmy": (third, second, first), "mdy": (third, first, second), "ymd": fields}[order]
    if order == "ymd" and len(third) > 2:
        return None
    try:
        found = dt.date(_year(year), int(month), int(day))
    except ValueError:
        return None
    return found if found.year <= dt.datetime.now(dt.UTC).year + _AHEAD else None


def _of_three(text: str) -> re.Match[str] | None:
    """Match a day of three numbers, with the name of a weekday before or behind it."""
    if (found := _THREE.fullmatch(text)) is not None or (text[-1:].isdigit() and text[:1].isdigit()):
        return found
    return _THREE.fullmatch(_WORD_BEFORE.sub("", text)) or _THREE.fullmatch(_WORD_AFTER.sub("", text))


class _Form(NamedTuple):
    """How the cells of a column count days, where they are numbers alone. start: day 0 of a spreadsheet's serials."""

    epoch: bool = False
    start: dt.date | None = None


_TEXTS = _Form()


@dataclass(slots=True)
class _Orders:
    """Evidence on the order of day, month and year in days of three numbers, and on columns that count days.

    An order is refuted by a day that only another order makes a day of the calendar. Of bars two days or more on a
    weekend refute it too, where another order has none: an exchange has no bars on weekends."""

    refuted: dict[Order, Cell] = field(default_factory=dict)
    weekends: dict[Order, int] = field(default_factory=dict)
    sure: set[Order] = field(default_factory=set)  # with a weekend among days that no other order makes one
    doubtful: dict[Order, list[Cell]] = field(default_factory=dict)  # weekends that another order makes another day
    first: Cell | None = None
    odd: set[str] = field(default_factory=set)  # columns with another form than ISO's
    epochs: dict[str, bool] = field(default_factory=dict)  # whether every cell of a column counts time since 1970
    serials: dict[str, dict[int, Cell] | None] = field(default_factory=dict)  # numbers of days; None: not all are
    exchanged: Cell | None = None  # a day that the calendar has only as year, day, month
    # Cells of bars of a sure form (True) and of three numbers (False), with a day up to the 12th or a later one.
    early: dict[bool, list[Cell]] = field(default_factory=lambda: {True: [], False: []})
    late: dict[bool, list[Cell]] = field(default_factory=lambda: {True: [], False: []})

    def see(self, column: str, kind: Kind, cells: Sequence[str], rows: Sequence[int]) -> None:
        if column not in self.odd and _ISO.fullmatch("\n".join([*cells, ""])) is not None:
            return
        self.odd.add(column)
        seen: dict[str, int] = {}
        for text, row in zip(cells, rows, strict=True):
            seen.setdefault(text, row)
        for text, row in seen.items():
            plain = bare(text)
            if len(plain) > _LONGEST:
                plain = "a text"
            self.epochs[column] = self.epochs.get(column, True) and (not plain or _EPOCH.fullmatch(plain) is not None)
            self._count(column, kind, plain, row)
            if (three := _of_three(plain)) is not None:
                self._weigh(Cell(row, column, plain), (three[1], three[3], three[4]), kind)
            elif (year := _YEAR_FIRST.fullmatch(plain)) is not None:
                self._of_year_first(Cell(row, column, plain), int(year[2]), int(year[3]), kind)

    def _count(self, column: str, kind: Kind, plain: str, row: int) -> None:
        known = self.serials.setdefault(column, {})
        serial = _SERIAL.fullmatch(plain)
        if not plain:
            return
        if known is None:
            pass
        elif kind != "session" or serial is None:
            self.serials[column] = None
        else:
            known.setdefault(int(serial[1]), Cell(row, column, plain))
        if kind == "session" and serial is not None:
            day = _SERIAL_STARTS[0] + dt.timedelta(days=int(serial[1]))
            (self.early if day.day <= 12 else self.late)[True].append(Cell(row, column, plain))

    def _of_year_first(self, cell: Cell, month: int, day: int, kind: Kind) -> None:
        if month > 12 >= day and self.exchanged is None:
            self.exchanged = cell
        if kind == "session":
            (self.early if day <= 12 else self.late)[True].append(cell)

    def _weigh(self, cell: Cell, fields: tuple[str, str, str], kind: Kind) -> None:
        days = {order: _in_order(fields, order) for order in _ORDERS}
        if not any(days.values()):
            return  # a day under no order: a problem of its row
        if kind == "session":
            (self.early if max(int(fields[0]), int(fields[1])) <= 12 else self.late)[False].append(cell)
        self.first = self.first or cell
        for order, day in days.items():
            if day is None:
                self.refuted.setdefault(order, cell)
            elif kind == "session" and day.weekday() > 4:
                self.weekends[order] = self.weekends.get(order, 0) + 1
                if sum(one is not None for one in days.values()) == 1:
                    self.sure.add(order)
                else:
                    self.doubtful.setdefault(order, []).append(cell)

    def forms(self) -> dict[str, _Form]:
        """Return the columns that count days or time. A spreadsheet's serials are days where the whole column shows in
        which of its two calendars: no bar is on a weekend in one, and some are in the other."""
        found = {column: _Form(epoch=True) for column, every in self.epochs.items() if every}
        for column, known in self.serials.items():
            if not known or len(known) < _FEW_SERIALS:
                continue
            weekends = [sum((one + start.toordinal() - 1) % 7 > 4 for one in known) for start in _SERIAL_STARTS]
            sound = [start for start, count in zip(_SERIAL_STARTS, weekends, strict=True) if not count]
            if len(sound) == 1:
                found[column] = _Form(start=sound[0])
        return found

    def decided(self) -> Order:
        """Return the one order that no cell refutes. Raises Ambiguous for none, and for more than one."""
        if self.exchanged is not None:
            message = f"{self.exchanged.text[:40]!r} has no such month: perhaps year, day, month"
            raise Ambiguous(f"{message}; write days as YYYY-MM-DD", self.exchanged)
        self._require_one_reading()
        if self.first is None:
            return "dmy"
        left = [order for order in _ORDERS if order not in self.refuted]
        if not left:
            day, month = self.refuted["mdy"], self.refuted["dmy"]
            early, late = sorted((day, month), key=lambda cell: cell.row)
            order = {id(day): "the day", id(month): "the month"}
            message = f"{late.text[:40]!r} has {order[id(late)]} first, and {early} has {order[id(early)]} first"
            raise Ambiguous(f"{message}; write days as YYYY-MM-DD", late)
        if len(left) > 1 and (sound := [order for order in left if not self.weekends.get(order)]):
            left = sound if all(self.weekends.get(order, 0) > 1 for order in left if order not in sound) else left
        if len(left) > 1:
            message = f"{self.first.text[:40]!r} may begin with the day or the month"
            raise Ambiguous(
                f"{message}, and no other day of the file shows which; write days as YYYY-MM-DD", self.first
            )
        self._require_sessions(left[0])
        return left[0]

    def _require_one_reading(self) -> None:
        """Raise Ambiguous for what a spreadsheet makes of days in the other order than its own: it turns those up to
        the 12th into other days, day and month exchanged, and leaves the others as texts."""
        if (
            min(len(self.early[True]), len(self.late[False])) >= _MIXED
            and not self.late[True]
            and not self.early[False]
        ):
            text, day = self.late[False][0], self.early[True][0]
            message = f"{text.text[:40]!r} and {day} are two ways to write days, one of days up to the 12th alone"
            why = "a spreadsheet may have exchanged day and month in those"
            raise Ambiguous(f"{message}: {why}; export them as YYYY-MM-DD", text)

    def _require_sessions(self, order: Order) -> None:
        """Raise Ambiguous where of all days only those that another order could mean are on weekends."""
        odd = self.doubtful.get(order, [])
        if odd and order not in self.sure:
            message = f"{odd[0].text[:40]!r} would be on a weekend with {_MEANS[order]}, as other rows have it"
            raise Ambiguous(f"{message}: two orders may be mixed; write days as YYYY-MM-DD", odd[0])


def plain_day(text: str, order: Order, form: _Form = _TEXTS) -> str:
    """Return a day or time as YYYY-MM-DD with HH:MM:SS and its offset from UTC where it has them; the text itself where
    it is none. form: what the numbers of the column count, if it has numbers alone."""
    written = bare(text)
    if len(written) > _LONGEST:
        return text
    if form.epoch and _EPOCH.fullmatch(written):
        return _since_1970(written)
    if form.start is not None and (serial := _SERIAL.fullmatch(written)) is not None:
        day, seconds = form.start + dt.timedelta(days=int(serial[1])), round(float(serial[2] or 0) * 86_400)
        return f"{day}{f' {dt.timedelta(seconds=seconds)!s:0>8}' if 0 < seconds < 86_400 else ''}"
    written = written.translate(_IN_CHINESE) if "年" in written else written
    if (found := _YEAR_FIRST.fullmatch(written)) is not None:
        return _joined(text, int(found[1]), int(found[2]), int(found[3]), found[4])
    if (found := _COMPACT.fullmatch(written)) is not None:
        clock = f"{found[4][:2]}:{found[4][2:4]}:{found[4][4:]}" if found[4] else found[5]
        return _joined(text, int(found[1]), int(found[2]), int(found[3]), clock)
    if (found := _of_three(written)) is not None:
        day_found = _in_order((found[1], found[3], found[4]), order)
        return text if day_found is None else _joined(text, day_found.year, day_found.month, day_found.day, found[5])
    for cut in (written, _WORD_BEFORE.sub("", written)):
        for pattern in _NAMED:
            if (found := pattern.fullmatch(cut)) is None:
                continue
            name = found["month"].lower()
            month = next((_MONTHS[name[:size]] for size in (4, 3) if name[:size] in _MONTHS), None)
            if month is not None:
                return _joined(text, _year(found["year"]), month, int(found["day"]), found["rest"])
    return text


def _since_1970(text: str) -> str:
    """Return a count since 1970 as New York's time; as a day alone where it is midnight there or in UTC."""
    whole = text.partition(".")[0]
    seconds = int(whole) / 10 ** {10: 0, 9: 0, 13: 3, 12: 3, 16: 6, 15: 6}.get(len(whole), 9)
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    here = moment.astimezone(NEW_YORK)
    for one in (moment, here):
        if one.time() == dt.time():
            return f"{one:%Y-%m-%d}"
    return here.isoformat(" ")


def _joined(text: str, year: int, month: int, day: int, rest: str | None) -> str:
    date = f"{year:04}-{month:02}-{day:02}"
    if not rest or not rest.strip():
        return date
    clock = _CLOCK.fullmatch(rest.strip())
    if clock is None and (alone := _HALF.fullmatch(rest.strip())) is not None:
        clock = _CLOCK.fullmatch(f"{alone['hour']}:00 {alone['half']}")
    if clock is None:
        return text
    hour, half = int(clock["hour"]), (clock["half"] or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return text
        hour = hour % 12 + (12 if half == "p" else 0)
    part = f".{clock['part'][:6]}" if clock["part"] else ""
    time = f"{date} {hour:02}:{clock['minute']}:{clock['second'] or '00'}{part}"
    offset = _offset(clock["zone"], time)
    return text if offset is None else f"{time}{offset}"


def _offset(zone: str | None, time: str) -> str | None:
    """Return the offset of a zone at a time, empty without a zone; None for an unknown one."""
    if zone is None:
        return ""
    zone = (_BRACKETS.sub("", zone) or zone).strip("[]() ")
    if (known := _ZONES.get(zone.upper())) is not None:
        return known
    if (found := _OFFSET.fullmatch(zone)) is not None:
        return f"{found[1]}{found[2]}:{found[3] or '00'}"
    name = "America/New_York" if zone.upper() in ("ET", "EASTERN") else zone
    try:
        moment = dt.datetime.fromisoformat(time).replace(tzinfo=ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    return moment.isoformat()[-6:]


# Files


@dataclass(frozen=True, slots=True)
class Notation:
    """How one file writes. odd: columns that are not in plain form already. forms: of the odd, those that count days.
    marks: decimal marks of columns, where they are not the file's. notes: readings that only a custom decides."""

    decimal: Mark
    order: Order
    odd: frozenset[str]
    forms: Mapping[str, _Form] = field(default_factory=dict)
    marks: Mapping[str, Mark] = field(default_factory=dict)
    notes: Sequence[tuple[Cell, str]] = ()

    def plain(self, column: str, kind: Kind, cells: Sequence[str]) -> Sequence[str]:
        """Return a column's cells in plain form; a cell that is no number or day stays as it is."""
        if column not in self.odd:
            return cells
        known: dict[str, str] = {}
        mark, form = self.marks.get(column, self.decimal), self.forms.get(column, _TEXTS)
        for text in cells:
            if text not in known:
                known[text] = plain_number(text, mark) if kind in NUMBERS else plain_day(text, self.order, form)
        return [known[text] for text in cells]


class Survey:
    """Evidence on the notation of one file. kinds: of the columns by our names. delimiter: between its cells. abroad:
    amounts may have the mark of any currency; without it another than the dollar is refused."""

    def __init__(self, kinds: Mapping[str, Kind], delimiter: str = ",", *, abroad: bool = False) -> None:
        self.delimiter = delimiter
        self._abroad = abroad
        self._kinds = kinds
        self._numbers: dict[str, _Numbers] = {}
        self._orders = _Orders()

    def see(self, columns: Mapping[str, Sequence[str]], rows: Sequence[int]) -> None:
        """Take the cells of some rows: texts, by column."""
        for column, cells in columns.items():
            kind = self._kinds.get(column, "text")
            if kind in NUMBERS:
                self._numbers.setdefault(column, _Numbers(kind)).see(column, cells, rows)
            elif kind in DAYS:
                self._orders.see(column, kind, cells, rows)

    def decided(self) -> Notation:
        """Return the notation of the file. Raises Ambiguous where it has none, or two, or another currency."""
        order, forms = self._orders.decided(), self._orders.forms()
        decimal, guess = _of_prices(self._numbers, self.delimiter)
        marks: dict[str, Mark] = {}
        for name, one in self._numbers.items():
            if one.abroad is not None and not self._abroad:
                money = _written(one.abroad.text)
                code = ((money["money"] or money["money2"]) if money else "").upper()
                why = foreign(one.abroad.text, currency=_CODES.get(code, code))
                raise Ambiguous(f"{why}; write amounts alone, and state their currency in listings.csv", one.abroad)
            own = one.proven() if one.kind == "count" else None
            marks[name] = mark = own or decimal
            doubtful = one.either.get(mark)
            if one.kind == "count" and doubtful is not None and own is None and one.ungrouped is None:
                raise _unclear(doubtful)  # a count of three decimals in every row: most likely marks of thousands
        odd = {
            name
            for name, one in self._numbers.items()
            if one.odd or _OTHER[marks[name]] in one.either or marks[name] == ","
        }
        notes = (
            [] if guess is None else [(guess, f"{guess.text[:40]!r} is read as {plain_number(guess.text, decimal)}")]
        )
        for column, form in forms.items():
            if form.start is not None and (known := self._orders.serials[column]):
                number, cell = next(iter(known.items()))
                day = form.start + dt.timedelta(days=number)
                notes.append((cell, f"{cell.text[:40]!r} is read as a spreadsheet's number of {day}"))
        return Notation(decimal, order, frozenset(odd | self._orders.odd), forms, marks, notes)


def kinds_of(columns: Mapping[str, object]) -> dict[str, Kind]:
    return {name: getattr(column, "kind", "text") for name, column in columns.items()}
