"""Kraken: the ledgers of an account. Each row has the balance after it, so that the last one of an asset in a wallet is
what is held; the rows between must add up to it.

With S the sum of amount less fee over the rows of an asset in a wallet, and B0 the balance before the first one, the
last balance is B0 + S. Rows of one second may be written in any order: so some row of the last second must have it.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import Decimal

from chordesk.models.statements import Draft, Holding
from chordesk.tools.holdings.formats.format import Format, Parsed
from chordesk.tools.holdings.ledgers.ledger import DUST, activity_table, each_row, fits
from chordesk.tools.holdings.sheets import Row, Sheet, Table, columns

COLUMNS = columns(
    "txid refid time type asset amount fee balance",
    txid="txid",
    refid="refid",
    time="time; day",
    type="type",
    asset="asset",
    wallet="wallet",
    amount="amount; number",
    fee="fee; number",
    balance="balance; number",
)
_MONEY = frozenset(("USD", "EUR", "GBP", "CAD", "CHF", "AUD", "JPY"))
_NAMES = {"XBT": "BTC", "XDG": "DOGE", "ETH2": "ETH"}
# Codes of its first years have an X or a Z before the name.
_NEWER = ("XBT", "ETH", "XRP", "LTC", "XLM", "ETC", "REP", "ZEC", "XMR", "MLN", "XDG")
_OLD = frozenset({f"X{one}" for one in _NEWER} | {f"Z{one}" for one in _MONEY})


def asset_of(code: str) -> str:
    """Return an asset's name, without what tells staked and rewarded ones apart: a point and what is behind it, and
    before the point the days for which they are bound."""
    stem, mark, _ = code.strip().upper().partition(".")
    if mark:
        stem = stem.rstrip("0123456789") or stem
    return _NAMES.get(stem[1:] if stem in _OLD else stem, stem[1:] if stem in _OLD else stem)


def _read(sheet: Sheet) -> Parsed:
    table, out = activity_table(sheet, COLUMNS)
    groups: defaultdict[tuple[str, str], list[tuple[str, Row]]] = defaultdict(list)
    last: dt.date | None = None
    for row in each_row(table, out, "txid"):
        day, asset = table.day(row, "time"), table.raw(row, "asset").strip()
        if day is None or not asset:
            sheet.error(row, "has no time or no asset")
        elif not table.raw(row, "txid").strip() or not table.raw(row, "balance").strip():
            out.leave(row, "waits for its confirmation: the row with its number counts")
        else:
            last = day if last is None else max(last, day)
            moment = table.known[row.line]["time"]
            groups[(asset, table.raw(row, "wallet").strip())].append((moment, row))
    draft = Draft(as_of=_day(sheet, last))
    for (asset, wallet), rows in groups.items():
        held = _last_balance(table, rows, f"{asset} {wallet}".strip())
        name = asset_of(asset)
        if held is None or abs(held) <= DUST:
            continue
        if held < 0:
            sheet.error(rows[-1][1], f"the balance of {name} is {held:f}: borrowed coins are no holding")
        elif name in _MONEY:
            draft.holdings.append(Holding(rows[-1][1].line, "Cash", "cash", held, name, value=held))
        else:
            draft.holdings.append(Holding(rows[-1][1].line, name, "crypto", held, "USD"))
    out.drafts, out.summed = [draft], sum(len(rows) for rows in groups.values())
    return out


def _day(sheet: Sheet, last: dt.date | None) -> dt.date | None:
    said = sheet.hints.as_of
    return said if said is not None and last is not None and said > last else last


def _last_balance(table: Table, rows: list[tuple[str, Row]], what: str) -> Decimal | None:
    ordered = sorted(rows, key=lambda one: one[0])
    changes, balances = [], []
    for _, row in ordered:
        amount, fee, balance = (table.number(row, one) for one in ("amount", "fee", "balance"))
        if amount is None or balance is None:
            table.sheet.error(row, "has no amount or no balance", table.heading("amount"))
            return None
        changes.append(amount - (fee or Decimal(0)))
        balances.append(balance)
    total = sum(changes, Decimal(0))
    first = [at for at, one in enumerate(ordered) if one[0] == ordered[0][0]]
    final = [at for at, one in enumerate(ordered) if one[0] == ordered[-1][0]]
    # Before the first row: nothing, or what one of the rows of the first second says.
    for before in [Decimal(0), *(balances[at] - changes[at] for at in first)]:
        for at in final:
            if abs(before + total - balances[at]) <= Decimal("1e-7") * (1 + len(rows)):
                return balances[at]
    table.sheet.error(
        ordered[-1][1],
        f"the balance of {what} is {balances[-1]:f}, and its rows do not come to it: some are missing or changed",
        table.heading("balance"),
    )
    return None


KRAKEN = Format(
    "kraken",
    "Kraken, ledgers",
    "txid, refid, time, type, subtype, aclass, asset, amount, fee, balance",
    fits(COLUMNS),
    _read,
    summed=True,
)
