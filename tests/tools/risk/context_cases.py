"""Codes that the funnel gives before or after the rules: an order that breaks each, and one that is just inside."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlmodel import select, update

from chordesk.models.orders import DenialCode
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.states import OrderState, RunState
from chordesk.models.tables.orders import Approval, Order, Preview
from chordesk.tasks.cli import arming
from chordesk.tools.orders import approvals, halting, submitting
from chordesk.tools.orders.flow import maintain_orders
from tests.fakes.alpaca import Alpaca
from tests.tools.orders.abroad import TapeAbroad
from tests.tools.orders.desk import Desk, Outcome, action
from tests.tools.orders.tape import Tape
from tests.tools.orders.test_submitting import Wire


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a case plays. alpaca: the far side of a broker with real money."""

    new_desk: Callable[..., Desk]
    alpaca: Alpaca


Play = Callable[[Stage], Outcome]


def quoted(seconds: int) -> Play:
    """The last quote is of so long after now."""

    def play(stage: Stage) -> Outcome:
        market = Tape({"AAA": 100.0})
        market.quoted_at = market.clock.at + dt.timedelta(seconds=seconds)
        return stage.new_desk(market).run(action())[0]

    return play


def previewed(seconds: int = 0, quantity: float = 10.0) -> Play:
    """The preview, of 10 shares, is so old when it is to be sent, and the order is of so many."""

    def play(stage: Stage) -> Outcome:
        market = Tape({"AAA": 100.0})
        market.clock.at = market.clock.at.replace(hour=12)
        desk = stage.new_desk(market)
        decision = desk.decide(action())
        desk.process(decision, trader_live=False)
        market.clock.at += dt.timedelta(seconds=seconds)
        with desk.store.session() as session:
            session.exec(update(Order).values(quantity=quantity))
        return desk.process(decision)[0]

    return play


def of_a_run(state: RunState) -> Play:
    def play(stage: Stage) -> Outcome:
        return stage.new_desk().run(action(), state=state)[0]

    return play


def opened_with(**changes: float) -> Play:
    """The run was opened with these settings in place of the trade worker's."""

    def play(stage: Stage) -> Outcome:
        desk = stage.new_desk()
        return desk.run(action(), settings={**snapshot(desk.settings), **changes})[0]

    return play


def asked(yes: bool = True, minutes: float = 0, price: float = 100.0, payload_hash: str | None = None) -> Play:
    """A person answers after so many minutes, and the price is another by then; payload_hash: of another payload."""

    def play(stage: Stage) -> Outcome:
        market = Tape({"AAA": 100.0})
        desk = stage.new_desk(market, approval="manual", max_price_collar=0.05)
        order_id = str(desk.run(action())[0].order_id)
        _age(desk, minutes)
        with desk.store.session() as session:
            approvals.decide(session, desk.settings, order_id, yes, "somebody", None)
        if payload_hash is not None:
            with desk.store.session() as session:
                session.exec(update(Approval).values(payload_hash=payload_hash))
        market.prices["AAA"] = price
        maintain_orders(desk.context())
        return _stands(desk)

    return play


def _age(desk: Desk, minutes: float) -> None:
    by = dt.timedelta(minutes=minutes)
    with desk.store.session() as session:
        approval, preview = session.exec(select(Approval)).one(), session.exec(select(Preview)).one()
        approval.asked_at, approval.expires_at = approval.asked_at - by, approval.expires_at - by
        preview.created_at -= by


def _stands(desk: Desk) -> Outcome:
    return Outcome(desk.store, desk.orders()[-1].id)


def compared(good_for: float) -> Play:
    """The account was compared with its broker before the last order, and cannot be now; good_for: seconds for which a
    comparison counts."""

    def play(stage: Stage) -> Outcome:
        desk = stage.new_desk()
        wire = Wire(desk)
        desk.broker = wire
        with patch.object(submitting, "ORDERS_SECONDS", good_for / 2):
            assert desk.run(action())[0].state == OrderState.FILLED
            wire.cut = {"state"}
            return desk.run(action("BBB"))[0]

    return play


def armed(disarmed: bool = False, **terms: Any) -> Play:
    """Two orders of 10 shares at 100 go to a broker with real money, under a mandate on these terms, which may be taken
    back once they are previewed; the second one."""

    def play(stage: Stage) -> Outcome:
        key = Ed25519PrivateKey.generate()
        desk = stage.new_desk(
            Tape({"AAA": 100.0, "BBB": 100.0}), broker="alpaca-live", approval="auto",
            mandate_public_key=arming.public_text(key),
        )  # fmt: skip
        stage.alpaca.fills = "all"
        wanted = {"max_notional": Decimal(2_000), "max_orders": 2, "symbols": ["AAA", "BBB"], "hours": 8.0, **terms}
        arming.arm(desk.store, desk.settings, key, desk.settings.broker, by="ann", **wanted)
        decision = desk.decide(action("AAA"), action("BBB"))
        desk.process(decision, trader_live=False)
        if disarmed:
            halting.disarm(desk.store, desk.settings, desk.settings.broker, "ann")
        first, second = desk.process(decision)
        assert first.state == (OrderState.FILLED if wanted["hours"] > 1 and not disarmed else OrderState.DENIED)
        assert len(stage.alpaca.sends) == [first.state, second.state].count(OrderState.FILLED)
        return second

    return play


A_MOMENT = 1e-6  # hours


def in_tokyo(shares: int) -> Play:
    """An order of so many shares where a lot has 100."""

    def play(stage: Stage) -> Outcome:
        market = TapeAbroad({"7203.T": 3_000.0}, rates={"JPYUSD": (0.0065, None)})
        return stage.new_desk(market).run(action("7203.T", quantity=shares))[0]

    return play


FUNNEL: list[tuple[DenialCode, Play, Play]] = [
    (DenialCode.LOT, in_tokyo(99), in_tokyo(100)),
    (DenialCode.UNPRICED, quoted(1), quoted(0)),
    (DenialCode.PREVIEW_STALE, previewed(seconds=15 * 60 + 1), previewed(seconds=15 * 60)),
    (DenialCode.PREVIEW_STALE, previewed(seconds=-3600), previewed()),
    (DenialCode.PREVIEW_ALTERED, previewed(quantity=10.0001), previewed(quantity=10.0)),
    (DenialCode.RUN_STOPPED, of_a_run(RunState.STOPPING), of_a_run(RunState.RUNNING)),
    (DenialCode.SETTINGS_DIFFER, opened_with(max_order_notional=9_999.0), opened_with(max_order_notional=10_000.0)),
    (DenialCode.PRICE_MOVED, asked(price=105.01), asked(price=105.0)),
    (DenialCode.PRICE_MOVED, asked(price=94.99), asked(price=95.0)),
    (DenialCode.APPROVAL_DENIED, asked(yes=False), asked(yes=True)),
    (DenialCode.APPROVAL_DENIED, asked(payload_hash="0" * 64), asked()),
    (DenialCode.APPROVAL_EXPIRED, asked(minutes=15.1), asked(minutes=14.5)),
    (DenialCode.NOT_RECONCILED, compared(good_for=0.001), compared(good_for=120)),
    (DenialCode.NO_MANDATE, armed(hours=A_MOMENT), armed(hours=8.0)),
    (DenialCode.NO_MANDATE, armed(disarmed=True), armed(disarmed=False)),
    (DenialCode.MANDATE_EXCEEDED, armed(max_notional=Decimal("1999.99")), armed(max_notional=Decimal(2_000))),
    (DenialCode.MANDATE_EXCEEDED, armed(max_orders=1), armed(max_orders=2)),
    (DenialCode.MANDATE_EXCEEDED, armed(symbols=["AAA"]), armed(symbols=["*"])),
]
