"""Whatever is ordered and however prices move: no share is in two sales, and none is without its stop after a pass."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from tests.examples import examples
from tests.tools.brokers.sessions import DAYS, FLAT, Figures, Sessions
from tests.tools.orders.desk import action, make_desk
from tests.tools.orders.protection.watch import a_pass, covered, selling

SYMBOLS = ("AAA", "BBB")
_homes = itertools.count()


@st.composite
def bars(draw: st.DrawFn) -> Figures:
    low = draw(st.integers(5_000, 14_000))
    high = low + draw(st.integers(0, 4_000))
    opened, closed = draw(st.integers(low, high)), draw(st.integers(low, high))
    return opened / 100, high / 100, low / 100, closed / 100


@st.composite
def actions(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["open", "add", "reduce", "close"]))
    terms = draw(
        st.sampled_from(
            [
                {},
                {"timeInForce": "ioc"},
                {"timeInForce": "cls"},
                {"orderType": "limit", "limitPrice": 100.0},
                {"orderType": "limit", "limitPrice": 110.0, "timeInForce": "gtc"},
                {"orderType": "stop", "stopPrice": 90.0, "timeInForce": "gtc"},
            ]
        )
    )
    return action(draw(st.sampled_from(SYMBOLS)), kind, quantity=float(draw(st.integers(1, 30))), **terms)


STEPS = st.lists(
    st.tuples(st.lists(actions(), max_size=3), st.booleans(), st.sampled_from(["stop:8%", "trail:5%", "stop:3.5%"])),
    min_size=2,
    max_size=6,
)


@pytest.mark.long
@rules(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    rows=st.lists(st.tuples(bars(), bars()), min_size=8, max_size=8), steps=STEPS, volume=st.sampled_from([120.0, 1e9])
)
def test_each_share_is_in_one_sale_at_most_and_protected_after_a_pass(
    template_db: Path, tmp_path: Path, rows: list[tuple[Figures, Figures]], steps: list[Any], volume: float
) -> None:
    market = Sessions({}, rows={name: [FLAT, *(row[place] for row in rows)] for place, name in enumerate(SYMBOLS)})
    market.volume = volume
    limits = {"max_symbol_share": 1, "max_price_collar": 1, "max_drawdown": 1, "max_daily_loss": 1}
    desk = make_desk(template_db, tmp_path / str(next(_homes)), market, max_trades_per_day=100, **limits)
    days = iter(DAYS)
    market.go(next(days))
    for asked, later, rule in steps:
        desk.settings = desk.settings.model_copy(update={"protect": rule})
        if asked:
            desk.run(*asked)
        held = desk.positions()
        assert all(quantity > 0 for quantity in held.values())
        assert all(quantity <= held.get(symbol, 0) for symbol, quantity in selling(desk).items())
        if later:
            market.go(next(days))
        a_pass(desk)
        covered(desk)
    desk.store.close()
