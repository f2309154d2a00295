"""The funnel end to end: previews, the gate, fills, and being killed anywhere."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import OrderError
from chordesk.models.orders import BrokerAnswer
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import backtest_account
from chordesk.models.states import OrderState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account, EquityMark, Order, Position, Preview
from chordesk.tools.brokers.paper import PaperBroker
from chordesk.tools.ledger import value
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import MarketData, RecordedSessions
from chordesk.tools.market.replay.market import ReplayMarket, replay_data
from chordesk.tools.orders.accounts import FencingLease, account_names
from chordesk.tools.orders.flow import process_decision, simulated_context
from chordesk.tools.orders.sessions import meet_sessions
from tests.tools.orders.desk import Desk, Outcome, action, make_desk
from tests.tools.orders.tape import Tape
from tests.tools.orders.test_submitting import Wire

NewDesk = Callable[..., Desk]
THREE = (action("AAA"), action("BBB", notional=1_020.0), action("NOPE"), action("CCC", kind="close", quantity=5))


def test_with_live_trading_off_a_preview_is_where_it_ends(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    desk.hold("CCC", 5)
    outcomes = desk.run(*THREE)
    assert [row.state for row in outcomes] == ["previewed", "previewed", "denied", "previewed"]
    assert (outcomes[1].quantity, outcomes[1].price, outcomes[1].notional) == (20, 50, 1000)
    assert desk.fills() == []
    assert (desk.cash(), desk.positions()) == (100_000, {"CCC": 5})


def test_a_preview_is_canonical_and_hashed(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    outcome = desk.run(action(quantity=3, orderType="limit", limitPrice=100.10))[0]
    with desk.store.read() as session:
        row = session.exec(select(Preview)).one()
        order = session.exec(select(Order)).one()
    assert row.payload_hash == outcome.payload_hash == hashlib.sha256(row.payload.encode()).hexdigest()
    payload = json.loads(row.payload)
    assert row.payload == json.dumps(payload, sort_keys=True, separators=(",", ":"))
    assert payload == {
        "account": "paper",
        "action": "open",
        "broker": "paper",
        "clientOrderId": order.id,
        "contract": None,
        "decisionId": order.decision_id,
        "expiresAt": "2010-08-12T20:10:00+00:00",
        "legs": None,
        "limitPrice": "100.1",
        "mandateVersion": None,
        "market": "tape",
        "multiplier": "1",
        "notional": "300.3",
        "orderType": "limit",
        "plan": None,
        "price": "100.1",
        "pricedAt": "2010-08-12T19:55:00+00:00",
        "protection": None,
        "protects": None,
        "quantity": "3",
        "side": "buy",
        "stopPrice": None,
        "symbol": "AAA",
        "timeInForce": "day",
        "trailPercent": None,
        "unpriced": None,
        "verdictId": order.verdict_id,
    }


def test_with_live_trading_on_the_portfolio_changes(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0}, opens={"AAA": 101.0, "CCC": 19.0})
    desk = new_desk(market, slippage_bps=10, commission_per_share=0.01)
    desk.hold("CCC", 5)
    outcomes = desk.run(*THREE)
    assert [row.state for row in outcomes] == ["filled", "filled", "denied", "filled"]
    assert outcomes[0].fills[0].price == 101.101
    assert outcomes[3].fills[0].price == 18.981
    assert outcomes[0].fills[0].filled_at == market.clock.now()
    assert desk.positions() == {"AAA": 10, "BBB": 20}
    spent = 10 * 101.101 + 20 * 50.05 - 5 * 18.981 + 35 * 0.01
    assert desk.cash() == pytest.approx(100_000 - spent, abs=1e-9)


def test_on_the_replay_market_an_order_fills_at_the_next_open_once_it_has_come(
    new_desk: NewDesk, tmp_path: Path
) -> None:
    desk = new_desk(ReplayMarket(replay_data(tmp_path), ReplayClock(dt.date(2010, 8, 12))), slippage_bps=5)
    (sent,) = desk.run(action("AAPL", notional=5_000.0), market="replay")
    assert (sent.state, sent.message) == (OrderState.SUBMITTED, "waits for the open of the next session")
    assert sent.quantity == 5_000 // desk.market.quote("AAPL").price
    assert (desk.positions(), desk.cash(), desk.fills()) == ({}, 100_000, [])
    desk.go(dt.date(2010, 8, 16))
    desk.run(action("AAPL", "hold"), market="replay")
    (filled,) = desk.outcomes([sent.order_id])
    opening = desk.market.bars("AAPL", 2).open[0]
    assert (filled.state, filled.message) == (OrderState.FILLED, None)
    assert filled.fills[0].filled_at.date() == dt.date(2010, 8, 13)
    assert filled.fills[0].price == pytest.approx(opening * 1.0005, abs=1e-4)
    with desk.store.read() as session:
        marks = session.exec(select(EquityMark).order_by(col(EquityMark.day))).all()
        assert [mark.day.day for mark in marks] == [12, 13, 16]
        assert marks[-1].last == value(session, desk.market, "paper").equity


def test_a_second_call_changes_nothing(new_desk: NewDesk) -> None:
    for live in (False, True):
        desk = new_desk(trader_live=live)
        desk.hold("CCC", 5)
        decision = desk.decide(*THREE)
        first = desk.process(decision)
        rows, cash = desk.orders(), desk.cash()
        assert [row.order_id for row in desk.process(decision)] == [row.order_id for row in first]
        assert [row.model_dump() for row in desk.orders()] == [row.model_dump() for row in rows]
        assert desk.cash() == cash


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.long
def test_killed_before_any_commit_it_ends_as_if_undisturbed(template_db: Path, tmp_path: Path) -> None:
    undisturbed = make_desk(template_db, tmp_path / "calm")
    undisturbed.hold("CCC", 5)
    expected = _summary(undisturbed, undisturbed.run(*THREE))
    kills = 0
    for survive in range(100):
        desk = make_desk(template_db, tmp_path / str(survive))
        desk.hold("CCC", 5)
        decision = desk.decide(*THREE)
        if not _killed_after(desk, decision, survive):
            break
        kills += 1
        desk.lease = FencingLease(desk.store, "paper", "the next process")
        assert _summary(desk, desk.process(decision)) == expected
        desk.store.close()
    # Draft, four checks and the notes, four approvals, the account taken and reconciled (2), and two for each of three
    # that are sent, two looks at the one that was denied.
    assert kills >= 18


def _killed_after(desk: Desk, decision: str, commits: int) -> bool:
    """Process the decision in a process that dies when it is about to commit for the (commits + 1)th time."""
    left = [commits]

    def fail(connection: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    event.listen(desk.store.writer, "commit", fail)
    try:
        desk.process(decision)
    except Killed:
        return True
    finally:
        event.remove(desk.store.writer, "commit", fail)
    return False


def _summary(desk: Desk, outcomes: list[Outcome]) -> Any:
    names = ("ordinal", "symbol", "action", "side", "quantity", "state", "denied", "price", "notional", "message")
    fills = [[(fill.quantity, fill.price, fill.commission, fill.filled_at) for fill in row.fills] for row in outcomes]
    shown = [[getattr(row, name) for name in names] for row in outcomes], fills
    return shown, desk.cash(), desk.positions(), len(desk.fills())


def test_killed_while_the_broker_works_it_fills_once(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market)
    decision = desk.decide(action())

    def fail() -> None:
        assert [row.state for row in desk.orders()] == ["submitting"]  # written before the broker got it
        raise Killed

    market.on_fill = fail
    with pytest.raises(Killed):
        desk.process(decision)
    market.on_fill = None
    assert desk.process(decision)[0].state == OrderState.FILLED
    assert desk.positions() == {"AAA": 10}


def test_two_workers_by_mistake_fill_once(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market)
    decision = desk.decide(action())
    states: list[str] = []

    def second_worker() -> None:
        market.on_fill = None
        other = Desk(desk.store, desk.settings, market, desk.broker, FencingLease(desk.store, "paper", "by mistake"))
        states.extend(row.state for row in other.process(decision))

    market.on_fill = second_worker
    first = desk.process(decision)[0]
    assert [first.state, *states] == ["filled", "filled"]
    assert len(first.fills) == 1
    assert (desk.positions(), desk.cash()) == ({"AAA": 10}, 99_000)


def _answer_of(status: str, *fills: tuple[float, float], message: str | None = None) -> BrokerAnswer:
    at = dt.datetime(2010, 8, 13, 13, 30, tzinfo=dt.UTC)
    made = [{"quantity": quantity, "price": price, "commission": 0.5, "at": at} for quantity, price in fills]
    return BrokerAnswer.model_validate({"status": status, "broker_order_id": "b1", "fills": made, "message": message})


@pytest.mark.parametrize(
    ("answer", "state", "message"),
    [
        (_answer_of("filled", (9, 100.0)), "unknown", "the broker reports"),
        (_answer_of("rejected", (1, 100.0)), "unknown", "the broker reports"),
        (_answer_of("filled", (11, 1.0)), "unknown", "the broker reports"),
        (_answer_of("rejected", message="no"), "rejected", "no"),
        (_answer_of("expired", message="no"), "expired", "no"),
    ],
)
def test_a_contradiction_and_a_refusal_move_no_money(
    new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch, answer: BrokerAnswer, state: str, message: str
) -> None:
    desk = new_desk()
    wire = desk.broker = Wire(desk)
    wire.cut = {"submit"}
    monkeypatch.setattr(wire, "lookup", lambda *order: answer)
    decision = desk.decide(action())
    desk.process(decision)
    (outcome,) = desk.process(decision)
    assert outcome.state == state
    assert message in (outcome.message or "")
    assert (desk.cash(), desk.positions(), desk.fills()) == (100_000, {}, [])


def test_an_unknown_decision_is_an_error(new_desk: NewDesk) -> None:
    with pytest.raises(OrderError, match="no decision 'nope'"):
        new_desk().process("nope")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> MarketData:
    return build_market(Settings(home=Path(tmp_path_factory.mktemp("home"))))


def settings_of(desk: Desk, **changes: object) -> Settings:
    return desk.settings.model_copy(update=changes).on_backtest(backtest_account(new_id()))


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
    process_decision(store, settings, past, context.broker, decision, context.lease)
    (found,) = desk.orders()
    assert found.state == "submitted", found
    assert isinstance(past, RecordedSessions)
    following = min(day for day in past.recorded() if day > past.clock.session())
    meet_sessions(simulated_context(store, settings, past.on(ReplayClock(following))))
    (found,) = desk.orders()
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
    process_decision(store, settings, past, broker, decision, FencingLease(store, "paper", "a test"))
    (order,) = desk.orders()
    assert (order.state, order.denial_code) == ("denied", "provider_not_allowed")
