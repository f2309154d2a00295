"""An account in dollars that trades London from own files, rebuilt to the cent out of those files alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from sqlmodel import col, select

from chordesk.models.settings.running_desk import snapshot
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import BookedSettlement, EquityMark, Fill
from chordesk.tools.ledger import account_money, gains_of, value
from chordesk.tools.market.files.market import build
from chordesk.tools.market.prices import Quotes
from chordesk.tools.orders.sessions import meet_sessions
from tests.tools.market.files import folders
from tests.tools.market.files.folders import sessions, write_table
from tests.tools.orders.desk import Desk, action, make_desk

HEADER = ("date", "open", "high", "low", "close", "adj close", "volume")
DAYS = sessions("2024-09-02", 40, "XLON")
SHARE, FUND = "AZN.L", "ISF.L"
PAYS_ON, PAYS = 30, Decimal("0.72")
FEE = Decimal("0.01")
CENT = Decimal("0.01")


def _opens(symbol: str, at: int) -> Decimal:
    start = Decimal(100) if symbol == SHARE else Decimal(8)
    return (start * (1 + Decimal((at * 7) % 11 - 5) / 200)).quantize(CENT)


def _closes(symbol: str, at: int) -> Decimal:
    return _opens(symbol, at) + Decimal("0.1") * ((at * 3) % 5 - 2)


def _rate(at: int) -> Decimal:
    return Decimal("1.30") + Decimal((at * 5) % 13 - 6) / 400


def _write(folder: Path) -> Path:
    for symbol in (SHARE, FUND):
        rows = []
        for at, day in enumerate(DAYS):
            opens, closes = _opens(symbol, at), _closes(symbol, at)
            # A file of both closes has prices as they were traded; what was paid is stated.
            before = 1 - PAYS / _closes(symbol, PAYS_ON - 1) if symbol == SHARE and at < PAYS_ON else Decimal(1)
            ends = (max(opens, closes) + 1, min(opens, closes) - 1)
            rows.append((day, opens, *ends, closes, float(closes * before), 5_000_000))
        write_table(folder / "bars" / f"{symbol}.csv", HEADER, rows)
    write_table(folder / "actions.csv", ("symbol", "date", "dividend"), [(SHARE, DAYS[PAYS_ON], PAYS)])
    # Every third day has no rate: that of the day before holds.
    write_table(folder / "fx.csv", ("date", "pair", "rate"), [
        (day, "GBPUSD", _rate(at)) for at, day in enumerate(DAYS) if at % 3
    ])  # fmt: skip
    listed = ((SHARE, "GBP", "share", 1, "0.01"), (FUND, "GBP", "etf", 1, "0.01"))
    write_table(folder / "listings.csv", ("symbol", "currency", "kind", "lot", "step"), listed)
    return folder


@pytest.fixture
def desk(template_db: Path, tmp_path: Path) -> Iterator[Desk]:
    own = {"data": _write(tmp_path / "data"), "replay_date": DAYS[10], "exchange": "XLON"}
    market = build(folders.settings(tmp_path, own["data"], exchange="XLON"), DAYS[10])
    limits = {"max_symbol_share": 1, "max_order_notional": 1e5, "max_symbol_notional": 1e6}
    made = make_desk(template_db, tmp_path / "home", market, commission_per_share=float(FEE), **limits, **own)
    made.settings = made.settings.model_copy(update={"market": "files"})
    yield made
    made.store.close()


def _known(moment: dt.datetime) -> Decimal:
    """Return the rate that was known at a moment: of the last day whose 17:00 in New York had passed."""
    ends = (dt.datetime.combine(day, dt.time(17), ZoneInfo("America/New_York")) for day in DAYS)
    return [_rate(at) for at, over in enumerate(ends) if over <= moment and at % 3][-1]


def _open_of(at: int) -> dt.datetime:
    return dt.datetime.combine(DAYS[at], dt.time(8), ZoneInfo("Europe/London"))


def test_the_ledger_is_that_of_the_files_to_the_cent(desk: Desk) -> None:
    plan = {
        10: [(SHARE, "open", 100), (FUND, "open", 1_000)],
        14: [(SHARE, "add", 50)],
        20: [(FUND, "reduce", 400)],
        24: [(SHARE, "reduce", 120)],
        33: [(SHARE, "close", 30)],
    }
    cash, held = Decimal(100_000), {SHARE: Decimal(0), FUND: Decimal(0)}
    for at in range(10, 36):
        for symbol, kind, quantity in plan.get(at, ()):
            (order,) = desk.run(action(symbol, kind, quantity=quantity), settings=snapshot(desk.settings))
            assert order.state == OrderState.SUBMITTED, order
        desk.go(DAYS[at + 1])
        meet_sessions(desk.context())
        opened, at_open = at + 1, _open_of(at + 1)
        if opened == PAYS_ON:
            cash += held[SHARE] * PAYS * _known(at_open)
        for symbol, kind, quantity in plan.get(at, ()):
            buys = kind in ("open", "add")
            worth = quantity * _opens(symbol, opened)
            duties = [worth * Decimal("0.005")] if buys and symbol == SHARE else []
            duties += [Decimal("1.5")] if symbol == SHARE and worth > 10_000 else []
            paid = sum((one * _known(at_open)).quantize(CENT, ROUND_HALF_UP) for one in duties)
            cash += worth * _known(at_open) * (-1 if buys else 1) - quantity * FEE - paid
            held[symbol] += quantity if buys else -quantity
    with desk.store.read() as session:
        fills = session.exec(select(Fill).order_by(col(Fill.filled_at), col(Fill.symbol))).all()
        assert {fill.currency for fill in fills} == {"GBP"}
        assert {fill.rate_source for fill in fills} == {"fx.csv"}
        assert [[name for name, _ in fill.duties or ()] for fill in fills if fill.symbol == SHARE] == [
            ["stamp duty"], ["stamp duty"], ["PTM levy"], [],
        ]  # fmt: skip
        (paid,) = session.exec(select(BookedSettlement)).all()
        assert (paid.kind, paid.currency, paid.rate) == ("dividend", "GBP", float(_known(_open_of(PAYS_ON))))
        now = desk.market.clock.now()
        view = value(session, Quotes(desk.market, account_money(session, desk.settings, "paper")), "paper")
        assert abs(Decimal(str(view.cash)) - cash) < CENT / 100
        worth = held[FUND] * _closes(FUND, 36) * _known(now)
        assert abs(Decimal(str(view.equity)) - cash - worth) < CENT / 100
        mark = session.exec(select(EquityMark).order_by(col(EquityMark.day).desc())).first()
        assert mark is not None
        assert abs(Decimal(str(mark.last)) - cash - worth) < CENT / 100
        (fund,) = view.positions
        bought = _known(_open_of(11))
        gains = gains_of(fund)
        assert gains is not None
        moved = (_closes(FUND, 36) - _opens(FUND, 11)) * _known(now)
        assert [round(one, 6) for one in gains] == [
            round(600 * moved, 6), round(600 * _opens(FUND, 11) * (_known(now) - bought), 6),
        ]  # fmt: skip
