"""The account of another desk, read from its database as it is: the file is opened for reading alone, and what reads it
knows a few columns, so that a desk of another version can be linked."""

from __future__ import annotations

import datetime as dt
import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

from chordesk.models.errors import UsageError
from chordesk.models.market import parse_contract
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.statements import Holding, Kind, Read, Statement, merged
from chordesk.models.text import one_line
from chordesk.tools.decimals import exact

SOURCE = "desk"
_FILE = "desk.db"
_PATIENCE = 5.0  # seconds for a writer of the other desk


def read_home(
    folder: Path,
    own: Path,
    account: str | None = None,
    rates: Mapping[str, Decimal] | None = None,
    is_linked: Callable[[str], bool] | None = None,
) -> Read:
    """Return the account of the desk in a folder as of its last mark. own: this desk's folder. account: which one,
    where the other desk has several; is_linked: the same, by its number. Raises UsageError."""
    place = folder.resolve()
    if place == own.resolve():
        raise UsageError(f"{folder} is this desk's own folder", remedy="name the folder of another desk")
    file = place / _FILE
    if not file.is_file():
        reason = f"{folder} has no {_FILE}: it is no desk's folder, or its database is on a server"
        raise UsageError(reason, remedy="name the other desk's DESK_HOME; of a server import a table of its positions")
    address = f"file:{quote(str(file))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as database:
            database.row_factory = sqlite3.Row
            desk, name, found = _read(database, folder, account, is_linked)
    except sqlite3.Error as error:
        reason = f"the database of {folder} cannot be read: {one_line(str(error), 80)}"
        raise UsageError(
            reason, remedy="let this user read the folder; a desk of an old version: `desk db upgrade` there"
        ) from None
    rows = tuple(replace(one, rate=one.rate or (rates or {}).get(one.currency)) for one in merged(found.holdings))
    statement = replace(found, number=_number(desk, name), holdings=rows)
    digest = hashlib.sha256(repr(statement).encode()).hexdigest()
    return Read(SOURCE, f"the account {name} of another desk", digest, (statement,), home=str(place))


def _number(desk: str, account: str) -> str:
    return f"{desk}/{account}"


def _read(
    database: sqlite3.Connection, folder: Path, wanted: str | None, is_linked: Callable[[str], bool] | None
) -> tuple[str, str, Statement]:
    identity = database.execute("select desk from identity").fetchone()
    if identity is None:
        raise sqlite3.DatabaseError("no desk has begun there")
    desk = str(identity[0])
    accounts = {
        str(row["name"]): row for row in database.execute("select * from account") if not is_backtest(row["name"])
    }
    if is_linked is not None:
        accounts = {name: row for name, row in accounts.items() if is_linked(_number(desk, name))}
    held = {str(row[0]) for row in database.execute("select distinct account from position")}
    names = [wanted] if wanted is not None else sorted(accounts.keys() & held) or sorted(accounts)
    if len(names) != 1 or names[0] not in accounts:
        known = ", ".join(sorted(accounts)) or "none"
        what = "has several accounts" if accounts else "has no account yet"
        what = f"has no account {one_line(wanted, 30)!r}" if wanted is not None else what
        raise UsageError(f"the desk in {folder} {what}", remedy=f"say which: --of NAME (known: {known})")
    name = names[0]
    money = str(_of(accounts[name], "currency") or "USD")
    rows = [_holding(at, row, money) for at, row in enumerate(_positions(database, name), 1)]
    cash = exact(accounts[name]["cash"])
    if cash:
        rows.append(Holding(0, "Cash", "cash", cash, money, value=cash, rate=_dollars(money)))
    if not rows:
        raise UsageError(f"the account {name} of the desk in {folder} holds nothing", remedy="nothing was written")
    return desk, name, Statement("", tuple(rows), _day(database, name))


def _positions(database: sqlite3.Connection, account: str) -> list[sqlite3.Row]:
    return database.execute("select * from position where account = ? order by symbol", (account,)).fetchall()


def _holding(at: int, row: sqlite3.Row, money: str) -> Holding:
    symbol, quantity = str(row["symbol"]), exact(row["quantity"])
    kind: Kind = "option" if parse_contract(symbol) is not None else "share"
    currency = str(_of(row, "currency") or money)
    return Holding(at, symbol, kind, quantity, currency, symbol, rate=_dollars(currency))


def _dollars(currency: str) -> Decimal | None:
    return Decimal(1) if currency == "USD" else None


def _day(database: sqlite3.Connection, account: str) -> dt.date:
    """Return the day of the account's last mark, or of its last fill."""
    marked = database.execute("select max(day) from equity_mark where account = ?", (account,)).fetchone()[0]
    filled = database.execute("select max(filled_at) from position where account = ?", (account,)).fetchone()[0]
    days = [dt.date.fromisoformat(str(one)[:10]) for one in (marked, filled) if one]
    return max(days, default=dt.date.today())


def _of(row: sqlite3.Row, column: str) -> Any:
    return row[column] if column in row.keys() else None  # noqa: SIM118  a row has no other way to ask
