"""Orders of a backtest: on its own account, by the paper broker, on past days; anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import FencedOff, OrderError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import backtest_account
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account, Order, Position
from chordesk.tools.brokers.paper import PaperBroker
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.accounts import FencingLease, account_names
from chordesk.tools.orders.flow import process_decision, simulated_context
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> MarketData:
    return build_market(Settings(home=Path(tmp_path_factory.mktemp("home"))))


def settings_of(desk: Desk, **changes: object) -> Settings:
    return desk.settings.model_copy(update={"account": backtest_account(new_id()), **changes})


@pytest.mark.parametrize("broker", ["alpaca-paper", "alpaca-live"])
def test_no_other_broker_than_paper_gets_an_order(new_desk: NewDesk, past: MarketData, broker: str) -> None:
    desk = new_desk()
    with pytest.raises(OrderError, match=f"broker {broker}"):
        simulated_context(desk.store, settings_of(desk, broker=broker), past)


def test_a_market_of_real_time_is_refused(new_desk: NewDesk) -> None:
    desk = new_desk(Tape({"AAA": 10.0}))
    desk.market.clock.day = None  # type: ignore[attr-defined]
    with pytest.raises(OrderError, match="past days alone"):
        simulated_context(desk.store, settings_of(desk), desk.market)


def test_another_account_is_refused(new_desk: NewDesk, past: MarketData) -> None:
    desk = new_desk()
    with pytest.raises(OrderError, match="the account paper is not a backtest's"):
        simulated_context(desk.store, desk.settings, past)


def decided(desk: Desk, past: MarketData) -> tuple[Store, Settings, Desk]:
    """A decision to buy, on a backtest's account and a past day."""
    settings = settings_of(desk, trader_live=True)
    desk.settings, desk.market = settings, past
    return desk.store, settings, desk


def test_an_order_fills_on_the_backtests_account_and_on_no_other(new_desk: NewDesk, past: MarketData) -> None:
    store, settings, desk = decided(new_desk(), past)
    decision = desk.decide(action("IBM"))
    context = simulated_context(store, settings, past)
    (found,) = process_decision(store, settings, past, context.broker, decision, context.lease)
    assert found.state == "filled", found
    with store.read() as session:
        assert session.get_one(Position, (settings.account, "IBM")).quantity == 10
        assert session.get_one(Account, settings.account).cash < 100_000
        assert session.get(Account, "paper") is None
        assert account_names(session, "paper") == ["paper"], "a halt of all accounts has nothing to do with it"
    assert not (settings.home / "audit").exists()


def test_the_desks_own_broker_denies_an_order_of_a_backtest(new_desk: NewDesk, past: MarketData) -> None:
    store, settings, desk = decided(new_desk(), past)
    decision = desk.decide(action("IBM"))
    broker = PaperBroker(store, past, settings)
    (found,) = process_decision(store, settings, past, broker, decision, FencingLease(store, "paper", "a test"))
    (order,) = desk.orders()
    assert (found.state, order.denial_code) == ("denied", "provider_not_allowed")


def test_a_step_that_was_thought_dead_is_fenced_off(new_desk: NewDesk, past: MarketData) -> None:
    store, settings, desk = decided(new_desk(), past)
    old = simulated_context(store, settings, past)
    old.lease.acquire()
    decision = desk.decide(action("IBM"))
    new = simulated_context(store, settings, past)
    process_decision(store, settings, past, new.broker, decision, new.lease)
    again = desk.decide(action("KO"))
    with pytest.raises(FencedOff, match="no longer in force"):
        process_decision(store, settings, past, old.broker, again, old.lease)
    with store.read() as session:
        assert [(row.symbol, row.state) for row in session.exec(select(Order)).all()] == [("IBM", "filled")]
