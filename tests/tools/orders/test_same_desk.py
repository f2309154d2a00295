"""The same desk in other units and under other names decides, trades and is worth the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlmodel import col, select

from chordesk.models.market import Listing
from chordesk.models.tables.orders import EquityMark, Position, Preview
from chordesk.tools.orders.flow import maintain_orders
from tests.examples import examples
from tests.tools.orders.abroad import TapeAbroad
from tests.tools.orders.desk import Desk, action

NewDesk = Callable[..., Desk]
CURRENCIES = ("TTD", "CAD")


@dataclass(frozen=True)
class Label:
    """How a desk's two shares are called, and how many units of a price are one of the other desk's."""

    names: tuple[str, str] = ("SHOP.TO", "RY.TO")
    unit: int = 1


def _ticks(count: int, label: Label) -> float:
    return float(Decimal(count) * label.unit / 100)


def _desk(new_desk: NewDesk, label: Label, prices: list[int], rates: list[int]) -> Desk:
    """rates: in ten thousandths; each share is in a currency of its own, whose only rates are on the tape."""
    market = TapeAbroad(
        dict(zip(label.names, (_ticks(price, label) for price in prices), strict=True)),
        rates={
            f"{currency}USD": (float(Decimal(rate) / 10_000 / label.unit), None)
            for currency, rate in zip(CURRENCIES, rates, strict=True)
        },
        listings={
            name: Listing.model_validate(
                {"symbol": name, "currency": currency, "price_step": Decimal(label.unit) / 100, "lot": lot}
            )
            for name, currency, lot in zip(label.names, CURRENCIES, (1, 10), strict=True)
        },
    )
    return new_desk(market, slippage_bps=7, commission_per_share=0.01, starting_cash=20_000, max_symbol_share=0.5)


def _asked(desk: Desk, step: tuple[Any, ...], label: Label) -> dict[str, Any]:
    _, which, kind, by, amount, away = step
    size = {"quantity": float(amount % 200 + 1)} if by == "quantity" or kind in ("reduce", "close") else {
        "quantity": None, "notional": float(amount)
    }  # fmt: skip
    last = desk.market.prices[label.names[which]] / label.unit * 100  # type: ignore[attr-defined]
    limit = round(last) * (100 + away) // 100 if away is not None else None
    asked = {"orderType": "limit", "limitPrice": _ticks(limit, label)} if limit is not None else {}
    return action(label.names[which], kind, **size, **asked)


def _play(desk: Desk, label: Label, script: list[tuple[Any, ...]]) -> list[Any]:
    """Return all that came of a script, without names and in the account's currency."""
    said: list[Any] = []
    for step in script:
        if step[0] == "move":
            desk.market.prices[label.names[step[1]]] = _ticks(step[2], label)  # type: ignore[attr-defined]
            maintain_orders(desk.context())
            continue
        (order,) = desk.run(_asked(desk, step, label))
        fills = [(one.quantity, one.commission, one.duties) for one in order.fills]
        said.append((order.state, order.denial_code, order.quantity, order.notional, fills))
    with desk.store.read() as session:
        held = session.exec(select(Position).order_by(col(Position.currency))).all()
        said.append([(row.quantity, row.cost_base, row.currency) for row in held])
        said.append(sorted(session.exec(select(Preview.notional)).all()))
        said.append([(mark.opening, mark.last, mark.high_water) for mark in session.exec(select(EquityMark)).all()])
    said.append(desk.cash())
    desk.store.close()
    return said


WHICH = st.integers(0, 1)
ACTS = st.tuples(
    st.just("act"), WHICH, st.sampled_from(["open", "open", "add", "reduce", "close"]),
    st.sampled_from(["quantity", "notional"]), st.integers(50, 9_000),
    st.one_of(st.none(), st.integers(-6, 6)),
)  # fmt: skip
MOVES = st.tuples(st.just("move"), WHICH, st.integers(900, 11_000))
SCRIPTS = st.lists(st.one_of(ACTS, MOVES), min_size=3, max_size=8)
PRICES = st.lists(st.integers(1_000, 10_000), min_size=2, max_size=2)
RATES = st.lists(st.integers(500, 20_000), min_size=2, max_size=2)
LABELS = {
    "prices in hundredths": Label(unit=100),
    "other names": Label(names=("BNS.TO", "ZZZ.TO")),
}


@rules(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SCRIPTS, PRICES, RATES)
def test_pence_and_names_change_nothing_but_what_they_are(
    new_desk: NewDesk, script: list[tuple[Any, ...]], prices: list[int], rates: list[int]
) -> None:
    first = _play(_desk(new_desk, Label(), prices, rates), Label(), script)
    for what, label in LABELS.items():
        assert _play(_desk(new_desk, label, prices, rates), label, script) == first, what
