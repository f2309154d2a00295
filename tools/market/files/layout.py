"""How a text file is laid out: its encoding, the delimiter, the line of its header, what stands above it, and tables
with a column for each name, which are read as rows of one name each."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from chordesk.models.outside import MOST_BYTES, require, require_lines
from chordesk.tools.market.files.known_exports import (
    PRICES,
    Wide,
    flat_header,
    matrix_header,
    meant,
    plain,
    wide_header,
)

_DELIMITERS = (",", ";", "\t", "|")
_SNIFFED = 1 << 16  # characters that show delimiter and header
_PREAMBLE = 20  # lines that may stand above the header, empty ones aside
_OF_A_HEADER = 8  # lines that one row of headings may go over
_ENDS = re.compile(r"\r\n|\r|\n")  # those of a file alone: texts have more
_SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NO_TEXT = {
    b"PK\x03\x04": "is a workbook or a zip archive; save it as CSV UTF-8",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook; save it as CSV UTF-8",
    b"\x1f\x8b": "is packed with gzip; name it with the ending .gz",
    b"PAR1": "is a Parquet file; name it with the ending .parquet",
    b"%PDF": "is a PDF; export CSV",
}


class Form(NamedTuple):
    """How a CSV file is laid out. skipped: lines above the header. stated: what these say of the rows below, by our
    names. wide: a header with a column for each name."""

    encoding: str
    delimiter: str
    skipped: int
    stated: Mapping[str, str] = {}
    wide: Wide | None = None


def no_text(path: Path) -> str | None:
    """Return what a file is that is no text, with the remedy."""
    with path.open("rb") as file:
        start = file.read(512)
    for mark, why in _NO_TEXT.items():
        if start.startswith(mark):
            return why
    if re.match(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype|html|\?xml|table)", start, re.IGNORECASE):
        return "is a web page or XML, and no table; export CSV"
    return None


def encoding_of(path: Path, name: str) -> tuple[str, str | None]:
    """Return (encoding of a text file, by its mark or by all of its bytes; a doubt about it). Raises Oversized for a
    line that is too long, without reading it whole."""
    require(name, path.stat().st_size, MOST_BYTES)
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        require_lines(name, iter(lambda: file.read(1 << 18), b""))
        for mark, encoding in _BOMS:
            if start.startswith(mark):
                return encoding, None
        if len(start) == 4 and not all(start) and start[0] + start[1]:
            return ("utf-16-le" if start[0] else "utf-16-be"), None
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while chunk := file.read(1 << 20):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252", "is no UTF-8 text, and is read as Windows-1252: look at letters with accents"
    return "utf-8", None


def first_lines(path: Path, encoding: str) -> list[str]:
    with path.open(encoding=encoding, newline="") as file:
        return _ENDS.split(file.read(_SNIFFED))


def _cells(lines: Sequence[str], at: int, delimiter: str) -> list[str]:
    """Return the row that begins on a line: a heading in quotes may go over several."""
    return next(
        csv.reader((f"{one}\n" for one in lines[at : at + _OF_A_HEADER]), delimiter=delimiter, skipinitialspace=True),
        [],
    )


def form_of(first: Sequence[str], encoding: str, names: Collection[str], stem: str) -> Form | None:
    """Return the layout of a file: the delimiter and the line under which most of the names are known; None of a file
    without a line. first: its first lines. stem: of its name."""
    filled = [at for at, line in enumerate(first) if line.strip("\ufeff \t;,")][:_PREAMBLE]
    if not filled:
        return None
    at = filled[0]
    if (separator := _SEPARATOR.fullmatch(first[at])) is not None:
        return Form(encoding, separator[1], at + 1)
    for delimiter in _DELIMITERS:
        rows = list(csv.reader(first[at : at + 3], delimiter=delimiter, skipinitialspace=True))
        if (wide := wide_header(rows)) is not None:
            return Form(encoding, delimiter, at, {}, wide)
    best = (0, 0, 0, Form(encoding, ",", at))
    for place in filled:
        for delimiter in _DELIMITERS:
            cells = _cells(first, place, delimiter)
            known = len({cell for cell in meant([plain(cell) for cell in cells]) if cell in names})
            width = len(cells) if place == at else 0
            found = (known if known > 1 or place == at else 0, -place, width, Form(encoding, delimiter, place))
            best = max(best, found, key=lambda one: one[:3])
        if best[0] > 1:
            break  # the first line that names two of our columns is the header
    form = best[3]
    if best[0] < 2:
        for place in filled:
            for delimiter in _DELIMITERS:
                header, below = (_cells(first, one, delimiter) for one in (place, place + 1))
                if (flat := flat_header(header) or matrix_header(header, below, names, stem)) is not None:
                    return Form(encoding, delimiter, place, _stated(first[:place], delimiter), flat)
    return form._replace(stated=_stated(first[: form.skipped], form.delimiter))


# A column or a line of a currency, as the sites write it whose other headings are known.
CURRENCY = ("currency", "ccy", "currencycode", "wahrung", "devise", "divisa", "moneda", "valuta", "moeda", "waluta",
            "parabirimi", "валюта")  # fmt: skip
_KEYS = {
    "symbol": "symbol", "ticker": "symbol", "tickersymbol": "symbol", "stocksymbol": "symbol", "instrument": "symbol",
    "exchange": "stated_exchange", **dict.fromkeys(CURRENCY, "stated_currency"),
}  # fmt: skip
_PAIR = re.compile(r"\s*#*\s*([^\W\d_](?:[^\W\d_]| ){2,13}?)\s*[:=]\s*(\S.*)")
_BRACKETED = re.compile(r"\(((?:[A-Za-z]{2,10}\s*:\s*)?[A-Z][A-Z0-9]{0,4}(?:[.\-/][A-Z])?)\)")
_ALONE = re.compile(r"#*\s*((?:[A-Z]{3,10}\s*:\s*)?[A-Z]{1,5}(?:[.\-/ ][A-Z])?)\s*")
_BEHIND = re.compile(r"(?:for|of)\s+([A-Z]{1,5}(?:[.\-/][A-Z])?)\s*[.:]?\s*")
_LONGEST = 200  # characters of a line that may state a symbol
_MONEY = frozenset({"USD", "US", "EUR", "GBP", "ADR", "ETF"})


def _stated(above: Sequence[str], delimiter: str) -> dict[str, str]:
    """Return what lines above a header state of the rows below it: symbol, currency, exchange."""
    found: dict[str, str] = {}
    for line in (one for one in above if len(one) <= _LONGEST):
        cells = [cell.strip().strip('"') for cell in line.split(delimiter) if cell.strip().strip('"')]
        pair = _PAIR.fullmatch(cells[0]) if len(cells) == 1 else None
        key, value = (pair[1], pair[2]) if pair else (cells[0].rstrip(":"), cells[1]) if len(cells) == 2 else ("", "")
        if (ours := _KEYS.get(plain(key))) is not None:
            found.setdefault(ours, value.strip())
            continue
        text = " ".join(cells)
        named = _ALONE.fullmatch(text) or _BRACKETED.search(text) or (_BEHIND.search(text) if len(cells) == 1 else None)
        if named is not None and named[1] not in _MONEY and (named.re is not _BEHIND or named.end() == len(text)):
            found.setdefault("symbol", named[1])
    return found


class Lines(NamedTuple):
    """Rows below a header. rows: each with the line that it ends on."""

    header: list[str]
    rows: Iterator[tuple[int, list[str]]]


def csv_lines(file: Any, form: Form) -> Lines:
    for _ in range(form.skipped):
        file.readline()
    below = _rows_below(file, form)
    wide = form.wide
    first = list(islice(below, wide.rows if wide is not None else 1))
    if wide is None:
        header = first[0][1] if first else []
        while len(header) > 1 and not header[-1].strip():
            header = header[:-1]  # what delimiters at the end of lines make; rows lose such cells too
        return Lines(header, below)
    names = [price for price in dict.fromkeys(wide.prices) if PRICES.fullmatch(price)]
    return Lines(wide.header(names), _long(below, wide.places(names), len(wide.prices) + 1))


_END = "\ue000the end of the file\ue000"


def _rows_below(file: Any, form: Form) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with the line that it ends on. Raises csv.Error for a quote that is opened and never closed: all
    lines after it would be one cell."""
    reader = csv.reader(chain(file, [_END]), delimiter=form.delimiter, skipinitialspace=True)
    last = form.skipped
    for row in reader:
        if row and row[-1].endswith(_END):
            if len(row) > 1 or row[0] != _END:
                raise csv.Error(f"a quote of row {last + 1} is not closed")
            return
        last = reader.line_num + form.skipped
        yield last, row


def _long(
    rows: Iterator[tuple[int, list[str]]], places: Mapping[str, Sequence[int]], width: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield a row for each ticker of a row; none for a ticker without any price in it."""
    for line, row in rows:
        if len(row) != width:
            yield line, row
            continue
        for ticker, of_ticker in places.items():
            cells = [row[at] if at else "" for at in of_ticker]
            if any(cell.strip() for cell in cells):
                yield line, [row[0], *cells, ticker]
