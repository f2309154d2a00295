"""Approvals: when one is needed, the effect of its answer, and its end without an answer."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from sqlmodel import col, select, update

from chordesk.models.errors import OrderError, UsageError
from chordesk.models.orders import DenialCode
from chordesk.models.settings import BROKERS, Settings
from chordesk.models.states import ApprovalState, OrderState, RunState
from chordesk.models.tables.orders import Approval, Order, Preview
from chordesk.models.tables.runs import Run
from chordesk.tools.orders import approvals
from chordesk.tools.orders.flow import maintain_orders
from tests.parts import HERE
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.risk.test_options import PUT, Options, option

NewDesk = Callable[..., Desk]


def _answer(desk: Desk, id_: str, yes: bool, why: str | None = None) -> Approval:
    with desk.store.session() as session:
        return approvals.decide(session, desk.settings, id_, yes, "somebody@here", why)


def _order(desk: Desk) -> Order:
    (order,) = desk.orders()
    return order


@pytest.mark.parametrize(
    ("policy", "real", "notional", "asked"),
    [
        (None, False, 1e6, False),
        (None, True, 1.0, True),
        ("auto", True, 1e6, False),
        ("manual", False, 1.0, True),
        ("above:500", False, 500.0, False),
        ("above:500", False, 500.01, True),
        ("above:0.1", True, 0.1, False),
    ],
)
def test_the_policy(policy: str | None, real: bool, notional: float, asked: bool) -> None:
    assert approvals.needs_person(Settings(approval=policy), real, notional) is asked


@pytest.mark.parametrize(("above", "asked"), [("8999.99", True), ("9000", False)])
def test_a_sold_put_is_as_large_as_what_it_may_have_to_buy(new_desk: NewDesk, above: str, asked: bool) -> None:
    options = {"stock_only": False, "options_mode": "both", "max_symbol_share": 1}
    desk = new_desk(Options({"AAA": 100.0, PUT: 2.0}), approval=f"above:{above}", **options)
    (outcome,) = desk.run(option(), instrument="option")
    assert (outcome.state, outcome.notional) == ("approval_pending" if asked else "filled", 9_000)
    with desk.store.read() as session:
        assert [row.notional for row in session.exec(select(Approval)).all()] == [9_000] * asked


@pytest.mark.parametrize("policy", ["sometimes", "above", "above:", "above:-5", "above:1e3", "above:5,000"])
def test_a_policy_that_means_nothing_is_refused(policy: str) -> None:
    with pytest.raises(ValidationError, match="above:NOTIONAL"):
        Settings(approval=policy)


def test_only_brokers_known_to_move_no_money_move_none() -> None:
    papers = {"paper", "alpaca-paper"} | ({"ibkr-paper"} if "ibkr" in HERE else set())
    assert {name for name in BROKERS if not Settings(broker=name).real_money} == papers


def test_an_approved_order_is_submitted_by_the_trade_queue_after_its_run_has_ended(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    decision = desk.decide(action())
    (outcome,) = desk.process(decision)
    assert outcome.state == "approval_pending"
    assert desk.process(decision) == [outcome], "asking again asks nobody twice"
    assert maintain_orders(desk.context()) == {"expired": 0, "open": 0, "unprotected": 0}
    with desk.store.session() as session:
        session.exec(update(Run).values(state=RunState.DONE))
        (found,) = approvals.pending(session)
    answered = _answer(desk, str(outcome.order_id)[:13], True, "fine")
    assert (answered.id, answered.state, answered.decided_by, answered.why) == (
        found[0].id, "approved", "somebody@here", "fine",
    )  # fmt: skip
    assert answered.decided_at is not None
    assert _order(desk).state == OrderState.APPROVED
    assert desk.fills() == []
    maintain_orders(desk.context())
    assert _order(desk).state == OrderState.FILLED
    with pytest.raises(OrderError, match="waits for no person: it is filled"):
        _answer(desk, found[0].id, False)


def test_a_no_is_final_and_has_its_reason(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    _answer(desk, str(outcome.order_id), False, "too much of it")
    order = _order(desk)
    assert (order.state, order.denial_code) == ("denied", DenialCode.APPROVAL_DENIED)
    assert order.denial_reason == "somebody@here denied it: too much of it"
    maintain_orders(desk.context())
    assert desk.fills() == []


@pytest.mark.parametrize(("minutes", "late"), [(14.9, False), (15.1, True)])
def test_an_approval_without_an_answer_expires(new_desk: NewDesk, minutes: float, late: bool) -> None:
    desk = new_desk(approval="manual")
    desk.run(action())
    _age(desk, minutes)
    assert maintain_orders(desk.context())["expired"] == int(late)
    assert _order(desk).state == ("denied" if late else "approval_pending")
    assert _order(desk).denial_code == (DenialCode.APPROVAL_EXPIRED if late else None)


def test_a_yes_that_comes_too_late_is_none(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    _age(desk, 15.1)
    assert _answer(desk, str(outcome.order_id), True).state == ApprovalState.EXPIRED
    assert _order(desk).denial_code == DenialCode.APPROVAL_EXPIRED


def test_an_answer_by_a_clock_that_is_behind_counts_for_nothing(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    _age(desk, minutes=-2 * 24 * 60)
    with pytest.raises(OrderError, match="this machine's clock shows"):
        _answer(desk, str(outcome.order_id), True)
    assert _order(desk).state == OrderState.APPROVAL_PENDING


def test_an_order_is_not_approved_by_a_letter_of_its_id(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    for letters in (1, 7):
        with pytest.raises(UsageError, match="is too little of the id"):
            _answer(desk, str(outcome.order_id)[:letters], True)
    assert _answer(desk, str(outcome.order_id)[:8], True).state == ApprovalState.APPROVED


def _age(desk: Desk, minutes: float) -> None:
    by = dt.timedelta(minutes=minutes)
    with desk.store.session() as session:
        for row in session.exec(select(Approval)):
            row.asked_at, row.expires_at = row.asked_at - by, row.expires_at - by
        for made in session.exec(select(Preview)):
            made.created_at = made.created_at - by


@pytest.mark.parametrize("state", [RunState.STOPPING, RunState.STOPPED, RunState.FAILED])
def test_a_stopped_run_takes_its_approved_orders_along(new_desk: NewDesk, state: RunState) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    _answer(desk, str(outcome.order_id), True)
    with desk.store.session() as session:
        session.exec(update(Run).values(state=state))
    maintain_orders(desk.context())
    assert _order(desk).denial_code == DenialCode.RUN_STOPPED


ALTERED: list[tuple[str, Any]] = [
    ("another hash was approved", update(Approval).values(payload_hash="0" * 64)),
    ("the yes was taken back", update(Approval).values(state="denied")),
    ("the order was changed", update(Order).values(quantity=11.0)),
]


@pytest.mark.parametrize(("what", "alter"), ALTERED, ids=[what for what, _ in ALTERED])
def test_an_approval_is_of_one_payload(new_desk: NewDesk, what: str, alter: Any) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    _answer(desk, str(outcome.order_id), True)
    with desk.store.session() as session:
        session.exec(alter)
    maintain_orders(desk.context())
    order = _order(desk)
    assert order.state == OrderState.DENIED
    assert order.denial_code in (DenialCode.APPROVAL_DENIED, DenialCode.PREVIEW_ALTERED)
    assert desk.fills() == []


def test_an_order_that_changed_while_it_waited_cannot_be_approved(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    with desk.store.session() as session:
        session.exec(update(Preview).values(payload_hash="0" * 64))
    with pytest.raises(OrderError, match="has changed since approval was requested"):
        _answer(desk, str(outcome.order_id), True)
    assert _order(desk).state == OrderState.APPROVAL_PENDING


def test_an_answer_is_to_the_preview_that_was_shown(new_desk: NewDesk) -> None:
    """The hash of another order's preview, of an older one of the same order, one that nobody made, and no hash."""
    desk = new_desk(approval="manual")
    first, second = desk.run(action("AAA"), action("BBB", quantity=12.0))

    def answer(shown: str) -> Approval:
        with desk.store.session() as session:
            return approvals.decide(session, desk.settings, str(first.order_id), True, "somebody@here", None, shown)

    hashes = {one.order_id: one.payload_hash for one in (first, second)}
    with pytest.raises(OrderError, match="quantity was 12, is 10; symbol was BBB, is AAA; nothing was decided"):
        answer(hashes[second.order_id])
    with pytest.raises(OrderError, match=r"\(000000000000\) is not the one that waits .*no preview with that hash"):
        answer("0" * 64)
    for text in (hashes[first.order_id][:11], "A" * 64, "%" * 12, ""):
        with pytest.raises(UsageError, match="is not the hash of a preview"):
            answer(text)
    with desk.store.session() as session:  # as if the order had been previewed anew while the person looked
        made = session.exec(select(Preview).where(Preview.order_id == first.order_id)).one()
        anew = made.payload.replace('"quantity":"10"', '"quantity":"11"')
        assert '"protection":null' in anew
        anew = anew.replace('"protection":null', '"protection":{"stopPrice":"95","targets":[["110","5"]]}')
        values = {"payload": anew, "payload_hash": hashlib.sha256(anew.encode()).hexdigest()}
        session.exec(update(Preview).where(col(Preview.id) == made.id).values(**values))
        session.exec(update(Approval).where(col(Approval.order_id) == first.order_id).values(payload_hash="1" * 64))
    differs = "protection stop price was none, is 95; protection targets was none, is 110 5; quantity was 10, is 11;"
    with pytest.raises(OrderError, match=differs):
        answer(hashes[first.order_id])
    with desk.store.session() as session:
        old = {"payload": made.payload, "payload_hash": made.payload_hash}
        session.exec(update(Preview).where(col(Preview.id) == made.id).values(**old))
        session.exec(update(Approval).values(payload_hash=made.payload_hash))
    assert {row.state for row in desk.orders()} == {"approval_pending"}
    assert answer(made.payload_hash[:12]).state == ApprovalState.APPROVED


def test_a_policy_made_stricter_meanwhile_asks_after_all(new_desk: NewDesk) -> None:
    desk = new_desk()
    decision = desk.decide(action())
    desk.process(decision, trader_live=False)
    with desk.store.session() as session:
        session.exec(update(Order).values(state="approved"))
    (outcome,) = desk.process(decision, approval="manual")
    denied(outcome, DenialCode.APPROVAL_DENIED)


def test_the_rules_are_asked_again_when_the_yes_comes(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (outcome,) = desk.run(action())
    _answer(desk, str(outcome.order_id), True)
    maintain_orders(desk.context(max_order_notional=999.0))
    assert (_order(desk).state, _order(desk).denial_code) == ("denied", DenialCode.NOTIONAL_PER_ORDER)


@pytest.mark.parametrize("id_", ["", "nope", "%", "a'--"])
def test_an_id_that_there_is_not(new_desk: NewDesk, id_: str) -> None:
    with pytest.raises(UsageError, match="desk approvals"):
        _answer(new_desk(), id_, True)


def test_an_id_of_two_is_refused(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    desk.run(action(), action("BBB"))
    with desk.store.session() as session:
        rows = session.exec(select(Approval).order_by(col(Approval.id))).all()
        shared = next(n for n in range(33) if rows[0].id[:n] != rows[1].id[:n]) - 1
    with pytest.raises(UsageError, match="more than one"):
        _answer(desk, rows[0].id[:shared], True)
