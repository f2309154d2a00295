"""Events of orders, in the transaction of their change."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from chordesk.models import event_log
from chordesk.models.errors import OrderError
from chordesk.models.events import DESK, Domain, Envelope, EventType
from chordesk.models.states import OrderState
from chordesk.tools.orders import approvals, halting
from chordesk.tools.orders.booking import advance, load_order
from tests.tools.orders.desk import Desk, action

NewDesk = Callable[..., Desk]


def emitted(desk: Desk, run_id: str) -> list[Envelope]:
    with desk.store.read() as session:
        return event_log.read(session, run_id, 0, 100)


def of_order(desk: Desk, run_id: str, *names: str) -> list[tuple[Any, ...]]:
    return [(one.type.value, *(one.payload.get(name) for name in names)) for one in emitted(desk, run_id)]


def test_a_filled_order_emits_each_of_its_states_and_the_fill(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.process(desk.decide(action()))
    (order,), (fill,) = desk.orders(), desk.fills()
    found = of_order(desk, order.run_id, "was", "state", "order")
    states = [None, "drafted", "previewed", "approved", "submitting", "filled"]
    expected = [("order.state", was, state, order.id) for was, state in pairwise(states)]
    assert [one for one in found if one[0] == "order.state"] == expected
    (filled,) = [one for one in emitted(desk, order.run_id) if one.type is EventType.ORDER_FILL]
    assert filled.domain is Domain.ORDER
    assert (filled.payload["order"], filled.payload["fill"]) == (order.id, fill.id)
    assert (filled.payload["symbol"], filled.payload["quantity"], filled.payload["price"]) == ("AAA", 10, fill.price)


def test_a_denied_order_emits_its_reason(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.process(desk.decide(action(), ratings={}))
    (order,) = desk.orders()
    assert of_order(desk, order.run_id, "was", "state", "code", "why")[-1] == (
        "order.state", "drafted", "denied", "no_verdict", order.denial_reason,
    )  # fmt: skip


@pytest.mark.parametrize("yes", [True, False])
def test_a_question_and_its_answer(new_desk: NewDesk, yes: bool) -> None:
    desk = new_desk(approval="manual")
    desk.process(desk.decide(action()))
    (order,) = desk.orders()
    with desk.store.session() as session:
        answered = approvals.decide(session, desk.settings, order.id, yes, "somebody", "because")
    asked, decided = [one for one in emitted(desk, order.run_id) if one.domain is Domain.APPROVAL]
    assert (asked.type, asked.approval_id) == (EventType.APPROVAL_ASKED, answered.id)
    assert (asked.payload["order"], asked.payload["notional"]) == (order.id, answered.notional)
    assert (decided.type, decided.approval_id) == (EventType.APPROVAL_DECIDED, answered.id)
    decision = "approved" if yes else "denied"
    assert (decided.payload["decision"], decided.payload["by"], decided.payload["why"]) == (
        decision, "somebody", "because",
    )  # fmt: skip


def test_an_approval_that_expires_emits_an_event(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual", preview_minutes=1e-6)
    desk.process(desk.decide(action()))
    (order,) = desk.orders()
    with desk.store.session() as session:
        approvals.expire(session, desk.settings)
    types = [one.type for one in emitted(desk, order.run_id) if one.domain is Domain.APPROVAL]
    assert types == [EventType.APPROVAL_ASKED, EventType.APPROVAL_EXPIRED]


def test_halting_is_published_on_the_desks_own_stream(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    desk.process(desk.decide(action()))
    (order,) = desk.orders()
    halting.halt(desk.store, "paper", "a test", "somebody")
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "slowly", reduce_only=True)
        halting.resume(session, desk.settings, "paper", "another")
    found = [(one.type.value, *one.payload.values()) for one in emitted(desk, DESK)]
    assert found == [
        ("order.trading", "paper", "halted", "a test", "somebody"),
        ("order.trading", "paper", "reducing", "slowly", "somebody"),
        ("order.trading", "paper", "active", "", "another"),
    ]
    assert of_order(desk, order.run_id, "state")[-1] == ("order.state", "denied")


def test_a_change_that_is_rolled_back_emits_no_event(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    desk.process(desk.decide(action()))
    (order,) = desk.orders()
    before = emitted(desk, order.run_id)
    with pytest.raises(OrderError), desk.store.session() as session:
        row = load_order(session, order.id)
        advance(session, row, OrderState.APPROVED)
        advance(session, row, OrderState.FILLED)  # which may not follow
    assert emitted(desk, order.run_id) == before
