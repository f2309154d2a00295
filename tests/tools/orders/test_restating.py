"""What holds a price or a number of shares follows a company's actions: nothing is worth more or less, or sold."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from chordesk.models.thesis import KeptThesis
from chordesk.tools.ledger import value
from chordesk.tools.market.clock import ReplayClock, exchange_day
from chordesk.tools.market.prices import Quotes
from chordesk.tools.market.protocol import Action
from chordesk.tools.market.replay.market import Columns, ReplayData, ReplayMarket
from chordesk.tools.orders.protection import held_plans
from chordesk.tools.orders.reconciliation import reconcile
from chordesk.tools.questions.theses import crossing
from tests.examples import examples
from tests.tools.market.files.folders import sessions
from tests.tools.orders.desk import Desk, action, make_desk
from tests.tools.orders.protection.watch import a_pass, stops

DAYS = sessions("2020-06-01", 14)
AT = 6  # the session on which all is decided
PLAN = {"entry": 100.0, "stop": 95.333, "target": 108.0}
_homes = itertools.count()


class Event(NamedTuple):
    """An action before the open of a session: shares that one becomes, then cash as a share of the price."""

    at: int
    split: float = 1.0
    cash: float = 0.0
    without_bar: bool = False


def told(events: Sequence[Event], known: int = len(DAYS)) -> ReplayData:
    """Data of A, whose price moves by its actions alone, as a source had them at the end of a session."""
    closes, actions, price = [], [], 100.0
    holes = {event.at for event in events if event.without_bar}
    for at, day in enumerate(DAYS):
        for event in (one for one in events if one.at == at):
            paid = price * event.cash
            after = (price - paid) / event.split
            if at <= known:
                actions.append(Action(day, event.split, paid, price / after))
            price = after
        closes.append(price)
    kept = [at for at in range(len(DAYS)) if at not in holes]
    close = np.array([*(closes[at] for at in kept), *[50.0] * len(DAYS)])
    ordinals = np.array([*(DAYS[at].toordinal() for at in kept), *(day.toordinal() for day in DAYS)], dtype=np.int32)
    start = np.array([0, len(kept), len(close)])
    volume = np.full(len(close), 1e9)
    columns = Columns(np.array(["A", "B"]), start, ordinals, close, close * 1.001, close * 0.999, close, volume)
    return ReplayData(columns, {}, actions={"A": actions})


def bought(template: Path, home: Path, data: ReplayData, plan: dict[str, float] = PLAN, **settings: Any) -> Desk:
    """A desk that bought 1,000 A at 100 with a plan."""
    days: dict[str, Any] = {"replay_date": DAYS[AT], "max_symbol_share": 1, "starting_cash": 200_000.0}
    days |= {"max_order_notional": 1e6, "max_symbol_notional": 1e6, "max_gross_notional": 1e6}
    days |= {"max_price_collar": 0.5, "max_daily_loss": 1.0, "max_drawdown": 1.0}
    desk = make_desk(template, home, ReplayMarket(data, ReplayClock(DAYS[AT])), **days, **settings)
    desk.run(action("A", quantity=1_000.0, plan=plan))
    step(desk, AT + 1)
    return desk


def step(desk: Desk, at: int) -> None:
    desk.go(DAYS[at])
    a_pass(desk)


def equity(desk: Desk) -> float | None:
    with desk.store.read() as session:
        return value(session, Quotes(desk.market), "paper").equity


RATIOS = st.sampled_from([2.0, 3.0, 20.0, 1.5, 1.05, 0.1, 0.25, 1 / 3])
CASH = st.sampled_from([0.0, 0.004, 0.012, 0.0476, 0.2194, 0.25])
EVENTS = st.lists(
    st.builds(Event, st.integers(AT + 2, len(DAYS) - 3), st.one_of(st.just(1.0), RATIOS), CASH, st.booleans()),
    max_size=4,
    unique_by=lambda event: event.at,
)


# Each example is a walk of a desk over sessions: what fails is small already.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@pytest.mark.long
@rules(max_examples=examples(3), deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(EVENTS, st.sampled_from(["none", "stop:4%", "trail:4%"]))
@example([Event(AT + 2, 2.0, 0.25)], "none")
@example(
    [
        Event(10, 0.1, 0.25, True),
        Event(9, 1.0, 0.2194, True),
        Event(11, 1.0, 0.012, False),
        Event(8, 0.1, 0.25, True),
    ],
    "trail:4%",
)
@example([Event(AT + 2, 0.1), Event(AT + 3, 1.0, 0.2194, True), Event(AT + 4, 1.05, 0.01)], "trail:4%")
# A third of a share that the reverse split paid out: its cost is not one of the others.
@example([Event(8, without_bar=True), Event(9, 1 / 3), Event(10, cash=0.2194), Event(11, 3.0, 0.012, True)], "stop:4%")
# A fraction of a share after two dividends on days without a trade.
@example([Event(AT + 2, 0.25), Event(AT + 3, 1.05, 0.2194, True), Event(AT + 4, 1 / 3, 0.0476, True)], "none")
def test_an_action_changes_no_value_no_distance_and_sends_no_order(
    template_db: Path, tmp_path_factory: pytest.TempPathFactory, events: list[Event], protect: str
) -> None:
    home = tmp_path_factory.getbasetemp() / f"restating-{next(_homes)}"
    desk = bought(template_db, home, told(events), protect=protect)
    desk.run(action("A", "add", quantity=400.0, orderType="limit", limitPrice=90.0, timeInForce="gtc"))
    limit = next(order for order in desk.orders() if order.limit_price)
    asked = (limit.quantity or 0) * (limit.limit_price or 0)
    for at in range(AT + 2, len(DAYS)):
        step(desk, at)
        assert equity(desk) == pytest.approx(200_000, abs=0.01)
        assert len(desk.fills()) == 1, [row.model_dump() for row in desk.orders()]
        price = desk.market.quote("A").price
        with desk.store.read() as session:
            (_, _, plan) = held_plans(session, "paper", desk.market)[0]
        assert [(plan.stop or 0) / price, (plan.target or 0) / price] == pytest.approx([0.95333, 1.08])
        standing = stops(desk)
        assert [order.quantity for order in standing] == [desk.positions()["A"]]
        if protect != "trail:4%":
            away = 0.95333 if protect == "none" else 0.96
            cents = max(1, sum(event.at <= at for event in events))  # each action keeps the stop to a whole cent
            assert (standing[0].stop_price or 0) / price == pytest.approx(away, abs=0.01 * cents / min(price, 100))
    (limit,) = [order for order in desk.orders() if order.limit_price]
    price = desk.market.quote("A").price
    # A price is kept to a hundredth of a cent, and later reverse splits multiply what that left out.
    grown = np.prod([max(1 / event.split, 1.0) for event in events])
    assert (limit.limit_price or 0) / price == pytest.approx(0.9, abs=1e-4 * grown / price)
    kept = (limit.quantity or 0) * (limit.limit_price or 0)
    cash = np.prod([1 - event.cash for event in events])
    assert kept == pytest.approx(asked * cash, rel=0.05), "of whole shares, the same money but for the cash"


@pytest.mark.parametrize("split", [2.0, 0.1])
def test_a_stop_above_the_price_by_a_split_sells_nothing_and_a_real_one_still_does(
    template_db: Path, tmp_path: Path, split: float
) -> None:
    events = [Event(AT + 3, split), Event(AT + 6, 1.0, 0.2)]
    desk = bought(template_db, tmp_path, told(events, AT + 3), {"entry": 100.0, "stop": 95.333})
    for at in (AT + 3, AT + 4):
        step(desk, at)
    assert desk.positions() == {"A": 1_000 * split}
    (order,) = stops(desk)
    assert order.stop_price == pytest.approx(95.333 / split, abs=0.01)
    step(desk, AT + 6)  # the price falls by a fifth, for which the data know no reason
    step(desk, AT + 7)
    assert desk.positions() == {}


def test_an_action_that_the_data_learn_late_is_booked_as_of_its_day(template_db: Path, tmp_path: Path) -> None:
    """What was held on the day follows it, what was bought since does not; two at once build on each other."""
    events = [Event(AT + 2, 2.0), Event(AT + 3, 3.0, 0.01)]
    desk = bought(template_db, tmp_path, told(events, AT), {"stop": 10.0})
    for at in (AT + 2, AT + 3):
        step(desk, at)
    assert desk.positions() == {"A": 1_000}
    desk.run(action("A", "add", quantity=30.0, plan={"stop": 14.0}))
    step(desk, AT + 4)
    assert desk.positions() == {"A": 1_030}, desk.orders()
    desk.market = ReplayMarket(told(events), desk.market.clock)
    desk.broker = desk.broker.on(desk.market)
    assert reconcile(desk.store, desk.settings, desk.broker, "another process").agreed
    for at in (AT + 5, AT + 6):
        step(desk, at)
    assert desk.positions() == {"A": 6_030}
    assert equity(desk) == pytest.approx(200_000, abs=0.01)
    with desk.store.read() as session:
        assert held_plans(session, "paper", desk.market)[0][2].stop == 14.0


def late(split: float, known: int) -> ReplayData:
    """Data that learn a split at session AT + 3 only from the end of a later session."""
    return told([Event(AT + 3, split)], AT if known < AT + 4 else len(DAYS))


@pytest.mark.parametrize(("split", "plan"), [(2.0, PLAN), (0.1, PLAN), (0.1, {"target": 108.0})])
@pytest.mark.parametrize("protect", ["none", "stop:4%"])
def test_a_split_that_the_data_learn_a_session_late_sells_nothing(
    template_db: Path, tmp_path: Path, split: float, plan: dict[str, float], protect: str
) -> None:
    desk = bought(template_db, tmp_path, late(split, AT), plan, protect=protect)
    desk.run(action("A", "reduce", quantity=400.0, orderType="limit", limitPrice=130.0, timeInForce="gtc"))
    for at in (AT + 2, AT + 3):
        step(desk, at)
    assert desk.positions() == {"A": 1_000}
    assert all("like a" in (order.message or "") for order in stops(desk))
    desk.market = ReplayMarket(late(split, AT + 4), desk.market.clock)
    desk.broker = desk.broker.on(desk.market)
    assert reconcile(desk.store, desk.settings, desk.broker, "another process").agreed
    for at in (AT + 4, AT + 5, AT + 6):
        step(desk, at)
    assert desk.positions() == {"A": 1_000 * split}
    assert equity(desk) == pytest.approx(200_000, abs=0.01)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_real_fall_by_half_is_sold_a_session_later_or_by_a_person_at_once(
    template_db: Path, tmp_path: Path, at_once: bool
) -> None:
    desk = bought(template_db, tmp_path, late(2.0, AT))
    for at in (AT + 2, AT + 3):
        step(desk, at)
    assert desk.positions() == {"A": 1_000}
    if at_once:
        desk.run(action("A", "close"))
    step(desk, AT + 4)
    assert desk.positions() == {}
    assert exchange_day(desk.fills()[-1].filled_at) == DAYS[AT + 4]


@pytest.mark.parametrize("split", [2.0, 0.1])
def test_a_thesis_is_not_proven_wrong_by_an_action(split: float) -> None:
    market = ReplayMarket(told([Event(AT + 2, split, 0.25)]), ReplayClock(DAYS[-1]))
    thesis = KeptThesis(invalidation_price=97.0, close=100.0)
    assert crossing(market, "A", thesis, DAYS[AT], DAYS[-1]) is None
    assert isinstance(
        crossing(market, "A", thesis.model_copy(update={"invalidation_price": 99.95}), DAYS[AT], DAYS[-1]), dt.date
    )
