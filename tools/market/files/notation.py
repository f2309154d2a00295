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

_GROUPS = " \u00a0\u202f\u2009'\u2019"  # thousands marks that are never decimal marks
_SCALES = {"k": 3, "m": 6, "mn": 6, "mio": 6, "b": 9, "bn": 9, "t": 12}
_MONEY = r"(?:US\$|[$€£¥]|USD|EUR|GBP|CHF|JPY)"
_WRITTEN = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[+\-\u2212])?\s*{_MONEY}?\s*(?P<sign2>[+\-\u2212])?\s*"
    rf"(?P<body>\d[\d.,{_GROUPS}]*|[.,]\d+)\s*(?P<scale>mio|mn|bn|[kmbt])?\s*{_MONEY}?\s*(?P<close>\))?(?P<after>[-\u2212])?",
    re.ASCII | re.IGNORECASE,
)
_DIGITS_AND_DOTS = re.compile(r"[0-9.\n+-]*", re.ASCII)
_TWO_DOTS = re.compile(r"\.\d*\.", re.ASCII)
_DECIMAL_DOT = re.compile(r"^[+-]?(?:\d{1,3}\.(?:\d{0,2}|\d{4,})|0\d*\.\d+|\d{4,}\.\d*|\.\d+)$", re.M | re.ASCII)
_EITHER_DOT = re.compile(r"^[+-]?[1-9]\d{0,2}\.\d{3}$", re.M | re.ASCII)
_UNGROUPED = re.compile(r"^[+-]?\d{4}", re.M | re.ASCII)
_OTHER: Mapping[Mark, Mark] = {".": ",", ",": "."}
_NAMES: Mapping[Mark, str] = {".": "decimal points", ",": "decimal commas"}


@dataclass(slots=True)
class _Numbers:
    """What one column shows. either: its first cell whose mark may be of decimals or of thousands."""

    kind: Kind
    odd: bool = False  # some cell is not digits, one point and a sign
    ungrouped: Cell | None = None  # four digits in a row before any mark: the column does not group
    proofs: dict[Mark, Cell] = field(default_factory=dict)  # of the decimal mark
    either: dict[Mark, Cell] = field(default_factory=dict)

    def see(self, column: str, cells: Sequence[str], rows: Sequence[int]) -> None:
        joined = "\n".join(cells)
        if _DIGITS_AND_DOTS.fullmatch(joined) is None or _TWO_DOTS.search(joined) is not None:
            self.odd = True
            for text, row in zip(cells, rows, strict=True):
                self._see(Cell(row, column, text.strip()))
            return
        if self.ungrouped is None:
            self.ungrouped = _first(column, joined, rows, _UNGROUPED)
        if "." not in joined:
            return
        for pattern, kept in ((_DECIMAL_DOT, self.proofs), (_EITHER_DOT, self.either)):
            if "." in self.proofs or "." in kept:
                break
            if (cell := _first(column, joined, rows, pattern)) is not None:
                kept["."] = cell

    def _see(self, cell: Cell) -> None:
        written = _WRITTEN.fullmatch(cell.text)
        if written is None:
            return
        body = written["body"].rstrip(_GROUPS)
        spaced = any(mark in _GROUPS for mark in body)
        body = re.sub(f"[{_GROUPS}]", "", body)
        dots, commas = body.count("."), body.count(",")
        if not dots and not commas:
            if not spaced and len(body) > 3 and self.ungrouped is None:
                self.ungrouped = cell
            return
        last: Mark = "." if body.rfind(".") > body.rfind(",") else ","
        if dots and commas:
            self.proofs.setdefault(last, cell)
            return
        if body.count(last) > 1:
            self.proofs.setdefault(_OTHER[last], cell)
            return
        whole, _, part = body.partition(last)
        if spaced or len(part) != 3 or not whole or whole[0] == "0" or len(whole) > 3:
            self.proofs.setdefault(last, cell)
        else:
            self.either.setdefault(last, cell)


def _first(column: str, joined: str, rows: Sequence[int], pattern: re.Pattern[str]) -> Cell | None:
    if (found := pattern.search(joined)) is None:
        return None
    at = joined.count("\n", 0, found.start())
    return Cell(rows[at], column, joined[found.start() :].partition("\n")[0])


def _decimal_mark(columns: Mapping[str, _Numbers], delimiter: str) -> Mark:
    """Return the decimal mark of a file. Raises Ambiguous for two marks, and for one that may be of thousands.

    Proof for a mark: it follows another, is followed by other than three digits, or by three after a leading zero or
    more than three digits; the other mark repeated. Three digits after one mark are no proof. Where nothing else in the
    file decides, a column with four digits in a row does not group thousands, a semicolon between cells goes with
    decimal commas, a point is decimal, and a comma in counts alone is of thousands."""
    proofs: dict[Mark, Cell] = {}
    for one in columns.values():
        for mark, cell in one.proofs.items():
            if mark not in proofs or cell.row < proofs[mark].row:
                proofs[mark] = cell
    if len(proofs) > 1:
        first, second = sorted(proofs, key=lambda mark: proofs[mark].row)
        message = f"{proofs[second].text[:40]!r} shows {_NAMES[second]}, and {proofs[first]} {_NAMES[first]}"
        raise Ambiguous(f"{message}; write all numbers in one way", proofs[second])
    for mark in proofs:
        return mark
    either = [(one, mark, cell) for one in columns.values() for mark, cell in one.either.items()]
    marks = {mark for one, mark, _ in either if one.kind != "count"}
    if len(marks) > 1:
        raise _unclear(next(cell for _, mark, cell in either if mark == ","))
    if "," not in marks:
        return "."
    if delimiter == ";" or any(one.ungrouped for one, mark, _ in either if mark == ","):
        return ","
    raise _unclear(next(cell for one, mark, cell in either if mark == "," and one.kind != "count"))


def _unclear(cell: Cell) -> Ambiguous:
    mark = "," if "," in cell.text else "."
    meant = cell.text[:40].replace(mark, "")
    return Ambiguous(
        f"{cell.text[:40]!r} may be {meant} or have three decimals, and no other number of the file shows which; "
        f"write {meant} or {cell.text[:40].replace(',', '.')}0",
        cell,
    )


def plain_number(text: str, decimal: Mark) -> str:
    """Return a number as digits with a decimal point, negative with a minus; the text itself where it is no number."""
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        return text
    group = _OTHER[decimal]
    whole, mark, part = written["body"].rstrip(_GROUPS).partition(decimal)
    pieces = re.split(f"[{re.escape(group)}{_GROUPS}]", whole)
    grouped = len(pieces) > 1
    if (part and not part.isdigit()) or not all(one.isdigit() for one in pieces if one or grouped):
        return text
    if grouped and not (len(pieces[0]) <= 3 and all(len(one) == 3 for one in pieces[1:])):
        return text
    if bool(written["open"]) != bool(written["close"]) or (written["sign"] and written["sign2"]):
        return text
    signs = (written["sign"] or written["sign2"] or "", written["after"] or "", "-" if written["open"] else "")
    negative = any(sign in ("-", "\u2212") for sign in signs if sign)
    digits = "".join(pieces) + (f".{part}" if mark and part else "")
    if written["scale"]:
        digits = f"{Decimal(digits or '0').scaleb(_SCALES[written['scale'].lower()]):f}"
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"-{digits}" if negative else digits


# Days

_ISO = re.compile(r"(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)?\n)*", re.ASCII)
_YEAR_FIRST = re.compile(r"(\d{4})[-/. ](\d{1,2})[-/. ](\d{1,2})(?:(?:[T,;]|\s)\s*(.*))?", re.ASCII)
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})(?:[T;,\s]\s*(.*))?", re.ASCII)
_THREE = re.compile(r"(\d{1,2})([/.\-])(\d{1,2})\2(\d{4}|\d{2})(?:[T,;\s]\s*(.*))?", re.ASCII)
_EPOCH = re.compile(r"(?:\d{9,10}|\d{12,13}|\d{15,16}|\d{18,19})(?:\.\d+)?", re.ASCII)
_WORDS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_LOCAL = {
    "janv": 1, "jän": 1, "ene": 1, "gen": 1, "fév": 2, "fev": 2, "mär": 3, "mrz": 3, "avr": 4, "abr": 4, "mai": 5,
    "mag": 5, "maj": 5, "mei": 5, "juin": 6, "giu": 6, "juil": 7, "lug": 7, "aoû": 8, "aou": 8, "ago": 8, "set": 9,
    "okt": 10, "ott": 10, "out": 10, "dez": 12, "déc": 12, "dic": 12,
}  # fmt: skip
_MONTHS = {**{name: at for at, name in enumerate(_WORDS, 1)}, **_LOCAL}
_WEEKDAY = re.compile(r"^[^\W\d_]{2,10}\.?,?\s+(?=\d|[^\W\d_])")
_NAMED = (
    re.compile(
        r"(?P<month>[^\W\d_]{3,10})\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})(?:[,T]?\s+(?P<rest>.*))?"
    ),
    re.compile(
        r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\.?[\s\-/]\s*(?P<month>[^\W\d_]{3,10})\.?,?[\s\-/](?P<year>\d{4}|\d{2})"
        r"(?:[,T]?\s+(?P<rest>.*))?"
    ),
    re.compile(r"(?P<year>\d{4})[\s\-/](?P<month>[^\W\d_]{3,10})[\s\-/](?P<day>\d{1,2})(?:[,T]?\s+(?P<rest>.*))?"),
)
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<part>\d{1,9}))?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<zone>\S.*)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{2}):?(\d{2})?")
_ZONES = {
    "Z": "+00:00", "UTC": "+00:00", "GMT": "+00:00", "EST": "-05:00", "EDT": "-04:00", "PST": "-08:00", "PDT": "-07:00",
}  # fmt: skip
_ORDERS: tuple[Order, ...] = ("dmy", "mdy", "ymd")
_MEANS = {"dmy": "the day first", "mdy": "the month first", "ymd": "the year first"}
_PIVOT, _AHEAD = 70, 20  # years of two digits; years that a day may lie ahead, as an expiry does


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


@dataclass(slots=True)
class _Orders:
    """Evidence on the order of day, month and year in days of three numbers.

    An order is refuted by a day that only another order makes a day of the calendar. Of bars two days or more on a
    weekend refute it too, where another order has none: an exchange has no bars on weekends."""

    refuted: dict[Order, Cell] = field(default_factory=dict)
    weekends: dict[Order, int] = field(default_factory=dict)
    sure: set[Order] = field(default_factory=set)  # with a weekend among days that no other order makes one
    doubtful: dict[Order, list[Cell]] = field(default_factory=dict)  # weekends that another order makes another day
    first: Cell | None = None
    two_digits: bool = False
    odd: set[str] = field(default_factory=set)  # columns with another form than ISO's
    epochs: dict[str, bool] = field(default_factory=dict)  # whether every cell of a column counts time since 1970

    def see(self, column: str, kind: Kind, cells: Sequence[str], rows: Sequence[int]) -> None:
        if _ISO.fullmatch("\n".join([*cells, ""])) is not None:
            return
        self.odd.add(column)
        seen: dict[str, int] = {}
        for text, row in zip(cells, rows, strict=True):
            seen.setdefault(text, row)
        for text, row in seen.items():
            plain = text.strip()
            self.epochs[column] = self.epochs.get(column, True) and (not plain or _EPOCH.fullmatch(plain) is not None)
            if (three := _THREE.fullmatch(plain)) is not None:
                self._weigh(Cell(row, column, plain), (three[1], three[3], three[4]), kind)

    def _weigh(self, cell: Cell, fields: tuple[str, str, str], kind: Kind) -> None:
        days = {order: _in_order(fields, order) for order in _ORDERS}
        if not any(days.values()):
            return  # a day under no order: a problem of its row
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

    def decided(self) -> Order:
        """Return the one order that no cell refutes. Raises Ambiguous for none, and for more than one."""
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

    def _require_sessions(self, order: Order) -> None:
        """Raise Ambiguous where of all days only those that another order could mean are on weekends."""
        odd = self.doubtful.get(order, [])
        if odd and order not in self.sure:
            message = f"{odd[0].text[:40]!r} would be on a weekend with {_MEANS[order]}, as other rows have it"
            raise Ambiguous(f"{message}: two orders may be mixed; write days as YYYY-MM-DD", odd[0])


def plain_day(text: str, order: Order, *, epoch: bool) -> str:
    """Return a day or time as YYYY-MM-DD with HH:MM:SS and its offset from UTC where it has them; the text itself where
    it is none. epoch: the column counts seconds, or parts of them, since 1970."""
    written = text.strip()
    if epoch and _EPOCH.fullmatch(written):
        return _since_1970(written)
    if (found := _YEAR_FIRST.fullmatch(written) or _COMPACT.fullmatch(written)) is not None:
        return _joined(text, int(found[1]), int(found[2]), int(found[3]), found[4])
    if (found := _THREE.fullmatch(written)) is not None:
        day = _in_order((found[1], found[3], found[4]), order)
        return text if day is None else _joined(text, day.year, day.month, day.day, found[5])
    for cut in (written, _WEEKDAY.sub("", written)):
        for form in _NAMED:
            if (found := form.fullmatch(cut)) is None:
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
    zone = zone.strip("[]() ")
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
    """How one file writes. odd: columns that are not in plain form already. epochs: of the odd, those since 1970."""

    decimal: Mark
    order: Order
    odd: frozenset[str]
    epochs: frozenset[str]

    def plain(self, column: str, kind: Kind, cells: Sequence[str]) -> Sequence[str]:
        """Return a column's cells in plain form; a cell that is no number or day stays as it is."""
        if column not in self.odd:
            return cells
        known: dict[str, str] = {}
        for text in cells:
            if text not in known:
                if kind in NUMBERS:
                    known[text] = plain_number(text, self.decimal)
                else:
                    known[text] = plain_day(text, self.order, epoch=column in self.epochs)
        return [known[text] for text in cells]


class Survey:
    """Evidence on the notation of one file. kinds: of the columns by our names. delimiter: between its cells."""

    def __init__(self, kinds: Mapping[str, Kind], delimiter: str = ",") -> None:
        self.delimiter = delimiter
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
        """Return the notation of the file. Raises Ambiguous where it has none, or two."""
        order = self._orders.decided()
        decimal = _decimal_mark(self._numbers, self.delimiter)
        for one in self._numbers.values():
            doubtful = one.either.get(decimal)
            if one.kind == "count" and doubtful is not None and decimal not in one.proofs and one.ungrouped is None:
                raise _unclear(doubtful)  # a count of three decimals in every row: most likely marks of thousands
        group = _OTHER[decimal]
        odd = {name for name, one in self._numbers.items() if one.odd or group in one.either or decimal == ","}
        epochs = {name for name, all_of_it in self._orders.epochs.items() if all_of_it}
        return Notation(decimal, order, frozenset(odd | self._orders.odd), frozenset(epochs))


def kinds_of(columns: Mapping[str, object]) -> dict[str, Kind]:
    return {name: getattr(column, "kind", "text") for name, column in columns.items()}
