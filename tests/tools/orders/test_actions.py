"""Splits and dividends of a data folder: decided on without later ones, booked on their day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.tables.orders import Preview
from chordesk.tools.ledger import value
from chordesk.tools.market.files.bars import action_of
from chordesk.tools.market.files.market import FilesMarket, build
from chordesk.tools.market.prices import Quotes
from chordesk.tools.orders.checking import ticket_of
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.market.files import folders
from tests.tools.market.files.folders import market, sessions, write_table
from tests.tools.orders.desk import Desk, action, make_desk
from tests.tools.orders.protection.watch import a_pass, stops

DAYS = sessions("2020-06-01", 30)
HEADER = ("date", "open", "high", "low", "close", "adj close", "volume")
AT = 20  # the session on which an order is decided
Steps = dict[int, tuple[float, float]]  # by session: shares that one becomes, and the dividend for one of before


def written(folder: Path, steps: Steps, closes: Sequence[float] = ()) -> Path:
    """Write a folder of A at 100 before any step, B and C always, with the adjusted closes that a source gives at the
    end of all sessions."""
    for symbol in "ABC":
        rows: list[list[Any]] = []
        price, factor = 100.0, 1.0
        for at, day in enumerate(DAYS):
            split, paid = steps.get(at, (1.0, 0.0)) if symbol == "A" else (1.0, 0.0)
            factor *= price * split / (price - paid) if at else 1.0
            price = (price - paid) / split
            rows.append([day, price, price * 1.01, price * 0.99, price, factor, 10**6])
        for row in rows:
            row[5] *= row[4] / factor
        write_table(folder / "bars" / f"{symbol}.csv", HEADER, rows)
    return folder


@pytest.fixture
def make(template_db: Path, tmp_path: Path) -> Any:
    def made(name: str, steps: Steps, **settings: Any) -> Desk:
        own = {"data": written(tmp_path / name / "data", steps), "replay_date": DAYS[AT], **settings}
        found = build(folders.settings(tmp_path / name, own["data"], **settings), DAYS[AT])
        desk = make_desk(template_db, tmp_path / name, found, max_symbol_share=1, **own)
        desk.settings = desk.settings.model_copy(update={"market": "files"})
        return desk

    return made


def test_a_later_split_changes_no_price_and_no_number_of_shares(make: Any) -> None:
    known = {5: (1.0, 1.0), 9: (4.0, 0.0)}
    found = []
    for name, later in (("a", {}), ("b", {AT + 1: (20.0, 0.0)}), ("c", {AT + 4: (0.1, 0.0), AT + 6: (1.0, 0.25)})):
        desk = make(name, {**known, **later}, data_prices="adjusted")
        assert isinstance(desk.market, FilesMarket)
        bars = desk.market.bars("A", 40)
        (order,) = desk.run(action("A", notional=4_000.0))
        actions = desk.market.actions("A", DAYS[0])
        found.append((order.quantity, order.price, bars.close.tolist(), bars.volume.tolist(), actions))
    assert found[0] == found[1] == found[2]
    assert [one.day for one in found[0][4]] == [DAYS[5], DAYS[9]]
    assert found[0][2] == pytest.approx([24.75] * (AT + 1)), "adjusted as of the day"


def to_session(desk: Desk, at: int) -> None:
    desk.go(DAYS[at])
    a_pass(desk)


def test_a_split_and_a_dividend_are_booked_on_their_day(make: Any) -> None:
    desk = make("a", {AT + 3: (1.0, 1.0), AT + 5: (4.0, 0.0)}, protect="stop:10%")
    desk.run(action("A", quantity=10.0))
    to_session(desk, AT + 2)
    before, (stop,) = desk.cash(), stops(desk)
    assert (stop.quantity, stop.stop_price, desk.positions()) == (10, 90, {"A": 10})
    to_session(desk, AT + 3)
    assert desk.cash() == before + 10
    to_session(desk, AT + 5)
    assert (desk.cash(), desk.positions()) == (before + 10, {"A": 40})
    with desk.store.read() as session:
        found = value(session, Quotes(desk.market), "paper")
    assert (found.positions[0].average_cost, found.equity) == (25, 100_000)
    (stop,) = stops(desk)
    assert (stop.quantity, stop.stop_price) == (40, 90 * 0.99 / 4), "the dividend alone does not bring it closer"


@pytest.mark.parametrize(("ratio", "held"), [(20.0, 140), (1.5, 10), (0.1, 0)])
def test_what_waits_over_a_split_is_in_shares_after_it(make: Any, ratio: float, held: float) -> None:
    """An order of 7 shares that fills at the first open after a split buys as much of the company."""
    desk = make("a", {AT + 1: (ratio, 0.0)})
    desk.run(action("A", quantity=7.0))
    to_session(desk, AT + 1)
    assert desk.positions() == ({"A": held} if held else {})
    assert desk.orders()[0].state == ("filled" if held else "cancelled")
    assert desk.cash() == pytest.approx(100_000 - held * 100 / ratio)


def test_a_fraction_that_a_split_leaves_is_paid(make: Any) -> None:
    desk = make("a", {AT + 2: (1.5, 0.0)})
    desk.run(action("A", quantity=7.0))
    to_session(desk, AT + 2)
    assert desk.positions() == {"A": 10}
    assert desk.cash() == pytest.approx(100_000 - 700 + 0.5 * 100 / 1.5)


def test_contracts_follow_a_split_of_one_share_into_several(make: Any) -> None:
    desk = make("a", {AT + 1: (4.0, 0.0)})
    desk.hold("A200918C00100000", -1.0, 5.0)
    desk.hold("A200918P00090001", 2.0, 3.0)
    desk.hold("A", 100.0)
    to_session(desk, AT + 1)
    assert desk.positions() == {"A": 400, "A200918C00025000": -4, "A200918P00090001": 2}
    with desk.store.read() as session:
        costs = {row.symbol: row.average_cost for row in value(session, Quotes(desk.market), "paper").positions}
    assert (costs["A200918C00025000"], desk.cash()) == (1.25, 100_000)


@pytest.mark.parametrize(("ratio", "strike", "bought"), [(1.5, 110, 150), (0.1, 110, 10)])
def test_a_contract_that_a_split_adjusts_has_no_price_and_delivers_what_its_shares_became(
    make: Any, ratio: float, strike: int, bought: int
) -> None:
    desk, put = make("a", {AT + 1: (ratio, 0.0)}), f"A200702P{strike:05d}000"
    desk.hold(put, -1.0, 12.0)
    to_session(desk, AT + 1)
    with desk.store.read() as session:
        found = value(session, Quotes(desk.market), "paper")
    assert (found.equity, found.positions[0].market_price) == (None, None)
    assert "other than 100 shares" in str(found.positions[0].missing)
    desk.run(action("A", "close", side="buy", contract=put, quantity=1.0))
    answer = desk.broker.lookup(ticket_of(desk.orders()[0]), Preview(price=1.0), found)
    assert (answer.status, answer.message) == ("rejected", found.positions[0].missing)
    desk.go(DAYS[AT + 4])  # after the expiry
    assert reconcile(desk.store, desk.settings, desk.broker, "a test").agreed
    assert (desk.positions(), round(desk.cash(), 2)) == ({"A": bought}, 100_000 - 100 * strike)


def test_rounded_adjusted_closes_show_splits_and_dividends_alone(tmp_path: Path) -> None:
    """Two decimals of an adjusted close are no dividend a day."""
    rows, price, factor = [], 80.0, 1.0
    for at, day in enumerate(DAYS):
        price = round(price * (1.01 if at % 2 else 0.992), 2)
        factor *= {10: price / (price - 0.8), 15: 3.0}.get(at, 1.0)
        price = round(price / 3, 2) if at == 15 else price
        rows.append([day, price, price, price, price, factor, 1])
    for row in rows:
        row[5] = round(row[4] * row[5] / factor, 2)
    folder = tmp_path / "own"
    write_table(folder / "bars" / "A.csv", HEADER, rows)
    found = market(tmp_path, folder, DAYS[-1]).actions("A", dt.date.min)
    assert [(one.day, one.split) for one in found] == [(DAYS[10], 1), (DAYS[15], 3)]
    assert found[0].dividend == pytest.approx(0.8, abs=0.05)


SPUN_AT = AT + 2


@pytest.mark.parametrize(
    ("stated", "paid", "held", "cash"),
    [
        ((), 21.9, {"A": 7}, 7 * 21.9),  # told by closes alone
        (("A", DAYS[SPUN_AT], "", "", "NEW", 0.5), 21.9, {"A": 7}, 7 * 21.9),  # of a name without bars
        (("A", DAYS[SPUN_AT], "", "", "B", 0.5), 21.9, {"A": 7, "B": 3}, 21.9),  # half a share in cash
        (("A", DAYS[SPUN_AT], 1.25, "", "", ""), 20, {"A": 8}, 0.75 * 80),
        (("A", DAYS[SPUN_AT], "", 25, "", ""), 25, {"A": 7}, 7 * 25),
    ],
)
def test_a_spin_off_is_cash_or_shares_and_no_split_of_its_parent(
    make: Any, tmp_path: Path, stated: tuple[Any, ...], paid: float, held: dict[str, float], cash: float
) -> None:
    columns = ("symbol", "date", "split", "dividend", "spun", "shares")
    write_table(tmp_path / "a" / "data" / "actions.csv", columns, [stated] if stated else [])
    if not stated:
        (tmp_path / "a" / "data" / "actions.csv").unlink()
    desk = make("a", {SPUN_AT: (1.0, paid)})
    desk.run(action("A", quantity=7.0))
    to_session(desk, SPUN_AT)
    assert desk.positions() == held
    assert desk.cash() == pytest.approx(100_000 - 700 + cash, abs=0.01)


@pytest.mark.parametrize(
    ("split", "paid", "price"),
    [(1.05, 0.0, 109.87), (1.0, 27.5, 110.0), (2.0, 1.0, 100.0), (0.1, 1.0, 100.0), (1.2, 0.0, 33.3), (1.5, 0.0, 47.1)],
)
def test_closes_tell_splits_stock_dividends_and_cash_apart(split: float, paid: float, price: float) -> None:
    found = action_of(DAYS[0], split * price / (price - paid), price, 1e-7)
    assert (found.split, found.dividend) == pytest.approx((split, paid), abs=1e-4)
