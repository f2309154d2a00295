"""A file of holdings: which format it has, what it says, and whether that can be right. Nothing is kept here."""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from chordesk.models.errors import UsageError
from chordesk.models.market import parse_contract
from chordesk.models.outside import Oversized
from chordesk.models.statements import Draft, Holding, LeftOut, Read, Statement
from chordesk.models.text import one_line
from chordesk.tools.holdings.formats import flex
from chordesk.tools.holdings.formats.degiro import DEGIRO
from chordesk.tools.holdings.formats.etrade import ETRADE
from chordesk.tools.holdings.formats.fidelity import FIDELITY
from chordesk.tools.holdings.formats.format import Format, Parsed
from chordesk.tools.holdings.formats.ibkr import IBKR
from chordesk.tools.holdings.formats.moomoo import MOOMOO
from chordesk.tools.holdings.formats.plain import PLAIN
from chordesk.tools.holdings.formats.schwab import SCHWAB
from chordesk.tools.holdings.formats.vanguard import VANGUARD
from chordesk.tools.holdings.formats.zerodha import ZERODHA
from chordesk.tools.holdings.ledgers import ghostfolio
from chordesk.tools.holdings.ledgers.coinbase import COINBASE
from chordesk.tools.holdings.ledgers.degiro_account import DEGIRO_ACCOUNT
from chordesk.tools.holdings.ledgers.etoro import ETORO
from chordesk.tools.holdings.ledgers.kraken import KRAKEN
from chordesk.tools.holdings.ledgers.portfolio_performance import PORTFOLIO_PERFORMANCE
from chordesk.tools.holdings.ledgers.robinhood import ROBINHOOD
from chordesk.tools.holdings.ledgers.scalable import SCALABLE
from chordesk.tools.holdings.ledgers.trade_republic import TRADE_REPUBLIC
from chordesk.tools.holdings.ledgers.trading212 import TRADING212
from chordesk.tools.holdings.names import is_total
from chordesk.tools.holdings.sheets import DELIMITERS, MOST_BYTES, Hints, Sheet, split, text_rows
from chordesk.tools.market.files.tables import Problems

# The first that fits counts: the plain format, of which two headings are enough, is the last.
FORMATS: tuple[Format, ...] = (
    IBKR, SCHWAB, FIDELITY, VANGUARD, ETRADE, MOOMOO, ZERODHA, DEGIRO, TRADING212, SCALABLE, TRADE_REPUBLIC, ROBINHOOD,
    COINBASE, KRAKEN, DEGIRO_ACCOUNT, ETORO, PORTFOLIO_PERFORMANCE, PLAIN,
)  # fmt: skip
MOST_APART = Decimal("0.01")  # of two rates of one currency and day, which may be rounded
_OFX = ("OFXHEADER", "<OFX>")


def read_file(
    path: Path,
    hints: Hints,
    *,
    from_activity: bool = False,
    only: str | None = None,
    rates: Mapping[str, Decimal] | None = None,
) -> Read:
    """Return what a file says. only: the key of the format that it is taken for. rates: US dollars for one unit of a
    currency, as the person who imports says. Raises UsageError with the row, the value and the remedy."""
    name = path.name
    _require_file(path)
    data = path.read_bytes()
    if not data.strip():
        raise UsageError(f"{name} is empty", remedy="export it anew; nothing was written")
    digest = hashlib.sha256(data).hexdigest()
    start = _start(data)
    if flex.is_flex(start):
        parsed, sheet = flex.parse_flex(data, name, hints)
        key, shown = "ibkr-flex", flex.SHOWN
    elif ghostfolio.is_ghostfolio(start):
        key, shown = "ghostfolio", ghostfolio.SHOWN
        _require_agreed(name, shown, from_activity=from_activity)
        parsed, sheet = ghostfolio.parse_ghostfolio(data, name, hints)
    else:
        chosen, sheet = _recognised(path, name, hints, only)
        if chosen.summed:
            _require_agreed(name, chosen.shown, from_activity=from_activity)
        parsed, key, shown = chosen.read(sheet), chosen.key, chosen.shown
        _judge_end(sheet, parsed)
    sheet.require_sound()
    if parsed.summed is None:
        _note_twins(sheet, parsed.drafts)
    _require_one_rate(sheet, parsed.drafts)
    statements = tuple(_finished(sheet, draft.done(), parsed, hints, rates or {}) for draft in parsed.drafts)
    statements = tuple(one for one in statements if one.holdings)
    sheet.require_sound()
    if not statements:
        raise UsageError(f"{name} has a header and no holdings", remedy="export it anew; nothing was written")
    return Read(key, shown, digest, statements, tuple(parsed.left_out), tuple(sheet.notes), parsed.summed)


def _judge_end(sheet: Sheet, parsed: Parsed) -> None:
    """Refuse a file whose last row has no line end and was left out: it may be the beginning of a holding. One that
    counts is named, where no total of the file speaks for it."""
    if not sheet.is_open or not sheet.rows:
        return
    last = sheet.rows[-1]
    left = next((one for one in parsed.left_out if one.line == last.line), None)
    if left is not None and not any(draft.totals for draft in parsed.drafts):
        why = f"ends with {one_line(last.text, 30)!r}, without a line end, which would be left out ({left.why})"
        sheet.error(last, f"{why}: the file may be cut; if it is whole, end its last line")
    elif not any(draft.totals for draft in parsed.drafts):
        sheet.notes.append(
            f"row {last.line}, the last, has no line end: the file may be cut there; look at its figures"
        )


def _require_one_rate(sheet: Sheet, drafts: Sequence[Draft]) -> None:
    """Refuse two rates of one currency on one day: one alone can count, and nobody says which."""
    said: dict[tuple[str, dt.date | None], Holding] = {}
    for day, one in ((draft.as_of, one) for draft in drafts for one in draft.holdings):
        first = said.setdefault((one.currency, day), one) if one.rate else one
        if one.rate and first.rate and abs(one.rate / first.rate - 1) > MOST_APART:
            why = f"has a rate of {one.rate:f} for {one.currency}, and row {first.line} one of {first.rate:f}"
            sheet.error(one.line, f"{why}: a currency has one rate")


def _note_twins(sheet: Sheet, drafts: Sequence[Draft]) -> None:
    """Say which rows of positions are the same: two lots may be, and so may one that was copied."""
    cells = {row.line: tuple(cell.strip() for cell in row.cells) for row in sheet.rows}
    for draft in drafts:
        known: dict[tuple[str, ...], int] = {}
        for line in (one.line for one in draft.holdings if one.line in cells):
            if (first := known.setdefault(cells[line], line)) != line:
                sheet.notes.append(f"row {line} is the same as row {first}, and both count")


def _start(data: bytes) -> bytes:
    """Return how a file begins, in UTF-8."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data[:8192].decode("utf-16", errors="ignore").encode()
    return data[:4096]


def _require_agreed(name: str, shown: str, *, from_activity: bool) -> None:
    if not from_activity:
        raise UsageError(
            f"{name} is {shown}: it lists what happened, and holdings would be a sum of it",
            remedy="export the positions; or say --from-activity if it begins with the account's first day",
        )


def _require_file(path: Path) -> None:
    try:
        if path.is_symlink():
            raise UsageError(f"{path.name} is a link to {os.readlink(path)}", remedy="name the file itself")
        found = path.stat()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file that you may read") from None
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is no file", remedy="name one file, an export of a broker")
    if found.st_size > MOST_BYTES:
        reason = f"{path.name} has {found.st_size:,} bytes, more than {MOST_BYTES:,}"
        raise UsageError(reason, remedy="export the positions of one account alone")


def _recognised(path: Path, name: str, hints: Hints, only: str | None) -> tuple[Format, Sheet]:
    lines, doubt = text_rows(path, name)
    if any(lines[0].lstrip().startswith(mark) for mark in _OFX):
        raise UsageError(f"{name} is OFX, and no table", remedy="export the positions as CSV; nothing was written")
    sheets: list[Sheet] = []
    broken = ""
    for delimiter in DELIMITERS:
        try:
            is_open = bool(lines[-1].strip()) and not lines[-1].endswith(("\n", "\r"))
            sheets.append(Sheet(name, delimiter, split(lines, delimiter), hints, Problems(), is_open=is_open))
        except csv.Error as error:
            broken = str(error)
        except Oversized as error:
            raise UsageError(f"{name}: {error}", remedy="export the positions of one account alone") from None
    for chosen in FORMATS:
        if only is not None and chosen.key != only:
            continue
        for sheet in sheets:
            if chosen.fits(sheet):
                sheet.notes += [f"the file {doubt}"] if doubt else []
                return chosen, sheet
    first = sheets[0] if sheets else None
    if broken:
        raise UsageError(f"{name} is no CSV: {broken}", remedy="the file may be cut; export it anew")
    head = one_line(first.rows[0].text, 80) if first is not None and first.rows else "nothing"
    known = "; ".join(one.shown for one in FORMATS)
    raise UsageError(
        f"{name}, row 1: {head!r} is the header of no format that is known ({known})",
        remedy="write a table with the columns symbol, quantity and perhaps price, currency, cost, as_of",
    )


def _finished(sheet: Sheet, found: Statement, parsed: Parsed, hints: Hints, rates: Mapping[str, Decimal]) -> Statement:
    """Return a statement with its day and the rates of its currencies."""
    as_of = found.as_of or hints.as_of
    if found.as_of is not None and hints.as_of is not None and found.as_of != hints.as_of:
        reason = f"{sheet.name} is of {found.as_of}, and --as-of says {hints.as_of}"
        raise UsageError(reason, remedy="leave --as-of out; nothing was written")
    if as_of is None:
        raise UsageError(f"{sheet.name} does not say of which day it is", remedy="say it: --as-of YYYY-MM-DD")
    if as_of > hints.today:
        raise UsageError(f"{sheet.name} is of {as_of}, which is later than today", remedy="correct the day")
    if as_of < dt.date(1990, 1, 1):
        raise UsageError(f"{sheet.name} is of {as_of}: that is too long ago to be meant", remedy="correct the day")
    for one in found.holdings:
        if one.kind != "cash" and is_total(one.symbol or one.name):
            sheet.error(one.line, f"{one_line(one.name, 40)!r} would be a holding, and is the word for a sum")
        if one.rate is not None and (one.rate <= 0 or (one.currency == "USD" and one.rate != 1)):
            why = "a rate is above 0" if one.rate <= 0 else "a dollar is one dollar"
            sheet.error(one.line, f"a rate of {one.rate:f} for {one.currency}: {why}")
    for currency, rate in parsed.rates.items():
        if rate <= 0:
            sheet.error(1, f"the file's rate of {currency} would be {rate:f}: a rate is above 0")
    rows = tuple(
        replace(one, rate=one.rate or parsed.dollars(one.currency) or rates.get(one.currency))
        for one in found.holdings
        if not _is_over(one, as_of, parsed)
    )
    return replace(found, as_of=as_of, holdings=rows)


def _is_over(row: Holding, as_of: dt.date, parsed: Parsed) -> bool:
    """Whether a row is a contract that had expired by the file's day, which is left out by name."""
    contract = parse_contract(row.symbol) if row.symbol else None
    if contract is None or contract.expiry >= as_of:
        return False
    why = f"expired on {contract.expiry}, before the file's day, {as_of}"
    parsed.left_out.append(LeftOut(row.line, contract.symbol, why))
    return True


def formats() -> Sequence[Format]:
    return FORMATS
