"""Ghostfolio: the export of a user as JSON, with the activities and the cash of each account. It usually contains what
other files have too."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from chordesk.models.errors import UsageError
from chordesk.models.outside import Oversized, require
from chordesk.models.statements import Draft, Holding, Kind
from chordesk.models.text import one_line
from chordesk.tools.holdings.formats.format import Parsed
from chordesk.tools.holdings.ledgers.ledger import Ledger, Thing
from chordesk.tools.holdings.names import ISIN, ticker
from chordesk.tools.holdings.sheets import MOST_MONEY, MOST_ROWS, Hints, Row, Sheet
from chordesk.tools.market.files.tables import Problems

SHOWN = "Ghostfolio, export"
_REMEDY = "export it anew in Ghostfolio; nothing was written"
_SIGNS = {"BUY": 1, "SELL": -1, "ITEM": 1}
_MONEY = frozenset(("DIVIDEND", "FEE", "INTEREST"))
_FUNDS = ("ETF", "MUTUALFUND", "MUTUAL_FUND")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


def is_ghostfolio(start: bytes) -> bool:
    return start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


@dataclass(slots=True)
class _Export:
    """Activities are numbered from 1, in place of rows."""

    sheet: Sheet
    profiles: Mapping[tuple[str, str], Mapping[str, Any]]
    day: dt.date
    out: Parsed


def parse_ghostfolio(data: bytes, name: str, hints: Hints) -> tuple[Parsed, Sheet]:
    sheet, found = Sheet(name, "", [], hints, Problems()), _loaded(data, name)
    activities, meta = found.get("activities"), found.get("meta")
    if not isinstance(activities, list) or not isinstance(meta, dict):
        raise UsageError(f"{name} is JSON, and no export of Ghostfolio: it has no activities", remedy=f"{_REMEDY}")
    try:
        require("the file", len(activities), MOST_ROWS, "activities")
    except Oversized as error:
        raise UsageError(f"{name}: {error}", remedy="export one account alone") from None
    day = _day(meta.get("date"))
    if day is None:
        raise UsageError(f"{name}: its meta has no date", remedy=_REMEDY)
    profiles = {
        (str(one.get("dataSource")), str(one.get("symbol"))): one for one in _rows(found, "assetProfiles", "profiles")
    }
    out = Parsed(summed=0)
    export = _Export(sheet, profiles, day, out)
    accounts = {str(one.get("id")): one for one in _rows(found, "accounts")}
    ledgers: dict[str, Ledger] = {one: Ledger(sheet) for one in accounts}
    for at, one in enumerate(activities, 1):
        if not isinstance(one, dict):
            sheet.error(at, f"is {type(one).__name__}, and an activity is due")
            continue
        _activity(export, at, one, ledgers.setdefault(str(one.get("accountId") or ""), Ledger(sheet)))
    for key, ledger in ledgers.items():
        out.drafts.append(_draft(export, key, ledger, accounts.get(key, {}), several=len(ledgers) > 1))
    out.summed = sum(one.rows for one in ledgers.values())
    return out, sheet


def _loaded(data: bytes, name: str) -> dict[str, Any]:
    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number")

    try:
        # Bytes of UTF-16 are known by their zeros, and a mark at the beginning is left out.
        found = json.loads(
            data.decode(json.detect_encoding(data)), parse_float=Decimal, parse_int=Decimal, parse_constant=refuse
        )
    except (ValueError, ArithmeticError) as error:
        line = f", row {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UsageError(f"{name}{line}: is no whole JSON: {one_line(str(error), 80)}", remedy=_REMEDY) from None
    except RecursionError:
        raise UsageError(f"{name}: its JSON is nested too deeply", remedy=_REMEDY) from None
    if not isinstance(found, dict):
        raise UsageError(f"{name} is JSON, and no export of Ghostfolio", remedy=_REMEDY)
    return found


def _rows(found: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    rows = (one for name in names if isinstance(found.get(name), list) for one in found[name])
    return [one for one in rows if isinstance(one, dict)]


def _activity(export: _Export, at: int, one: Mapping[str, Any], ledger: Ledger) -> None:
    kind, day, row = str(one.get("type", "")).upper(), _day(one.get("date")), Row(at, [str(one.get("symbol", ""))])
    if day is None:
        export.sheet.error(at, f"{one_line(str(one.get('date')), 30)!r} is no day", "date")
    elif one.get("isDraft") is True or day > export.day:
        export.out.leave(row, "planned, and not done yet")
    elif kind in _MONEY:
        ledger.seen(day)
    elif kind == "LIABILITY":
        export.out.leave(row, "a liability, no holding")
    elif kind not in _SIGNS:
        export.sheet.error(at, f"{one_line(kind, 30)!r} is a kind of activity that is not known", "type")
    else:
        quantity = _number(export.sheet, at, one, "quantity")
        ledger.move(row, day, _thing(export, at, one, kind), None if quantity is None else _SIGNS[kind] * quantity)


def _thing(export: _Export, at: int, one: Mapping[str, Any], kind: str) -> Thing | None:
    source, written = str(one.get("dataSource", "")), str(one.get("symbol", "")).strip()
    profile = export.profiles.get((source, written), {})
    currency = str(profile.get("currency") or one.get("currency") or "").upper()
    if not written or len(currency) != 3 or not currency.isalpha():
        export.sheet.error(at, f"{one_line(written, 30)!r} in {one_line(currency, 10)!r} is no holding", "symbol")
        return None
    sort = str(profile.get("assetSubClass") or "").upper()
    sorted_as: Kind = "crypto" if sort == "CRYPTOCURRENCY" else "fund" if sort in _FUNDS else "share"
    if kind == "ITEM" or (source == "MANUAL" and _UUID.fullmatch(written)):
        sorted_as = "other"
    code = str(profile.get("isin") or "").upper()
    known = ticker(written, currency) if sorted_as in ("share", "fund") and source != "COINGECKO" else None
    name = one_line(str(profile.get("name") or written), 120)
    return Thing(f"{source} {written}", name, sorted_as, currency, known, code if ISIN.fullmatch(code) else None)


def _draft(export: _Export, key: str, ledger: Ledger, account: Mapping[str, Any], *, several: bool) -> Draft:
    ledger.last = export.day  # the export says of which day it is
    label = one_line(str(account.get("name") or ""), 40)
    draft = ledger.done(key, label if several else "")
    currency = str(account.get("currency") or "").upper()
    newest = max(_rows(account, "balances"), key=lambda one: str(one.get("date")), default={})
    stated = account if account.get("balance") is not None else {"balance": newest.get("value")}
    balance = _number(export.sheet, 0, stated, "balance") if stated["balance"] is not None else None
    if balance and len(currency) == 3:
        draft.holdings.append(Holding(0, "Cash", "cash", balance, currency, value=balance))
    return draft


def _day(value: Any) -> dt.date | None:
    try:
        return dt.date.fromisoformat(str(value)[:10])
    except ValueError:
        return None


def _number(sheet: Sheet, at: int, one: Mapping[str, Any], name: str) -> Decimal | None:
    value = one.get(name)
    if not isinstance(value, Decimal) or not value.is_finite() or abs(value) >= MOST_MONEY:
        sheet.error(at, f"{one_line(str(value), 40)!r} is no number that can be meant", name)
        return Decimal(0)
    return value
