"""Closing one position at a person's request: all of it that is free, through the same checks, its stop withdrawn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.orders import DenialCode
from chordesk.tools.orders import halting
from chordesk.tools.orders.closing import closing_action
from chordesk.tools.orders.protection import left_bare
from tests.tools.orders.desk import Desk, action, denied

NewDesk = Callable[..., Desk]


def closing(desk: Desk, symbol: str = "AAA") -> dict[str, object]:
    with desk.store.read() as session:
        return closing_action(session, desk.settings, symbol, "enough")


def test_all_that_is_held_is_sold_and_its_stop_goes(new_desk: NewDesk) -> None:
    desk = new_desk(protect="stop:8%")
    desk.run(action())
    (stop,) = [row for row in desk.orders() if row.protects is not None]
    (closed,) = desk.run(closing(desk))
    assert (closed.side, closed.quantity, closed.state) == ("sell", 10, "filled")
    assert desk.positions() == {}
    assert [row.state for row in desk.orders() if row.id == stop.id] == ["cancelled"]


def test_a_short_is_bought_back_though_none_may_be_opened_and_never_more(new_desk: NewDesk) -> None:
    desk = new_desk(allow_short=False)
    desk.hold("AAA", -7, 100.0)
    (more,) = desk.run({**closing(desk), "quantity": 8.0})
    assert "close with a buy of 8 contradicts the -7 shares held" in denied(more, DenialCode.MALFORMED)
    (closed,) = desk.run(closing(desk))
    assert (closed.side, closed.quantity, closed.state) == ("buy", 7, "filled")
    assert desk.positions() == {}


def test_an_order_that_waits_for_a_person_is_the_only_one(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    desk.hold("AAA", 7, 100.0)
    (asked,) = desk.run(closing(desk))
    assert (asked.state, asked.quantity) == ("approval_pending", 7)
    with pytest.raises(UsageError, match=f"order {asked.order_id} gives 7 AAA back already: approval_pending"):
        closing(desk)


def test_beside_an_order_that_works_none_is_made(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10, 100.0)
    (resting,) = desk.run(action(kind="reduce", quantity=4, orderType="limit", limitPrice=104.0, timeInForce="gtc"))
    with pytest.raises(UsageError, match=f"order {resting.order_id} gives 4 AAA back already") as bound:
        closing(desk)
    assert "cancel it at the broker" in str(bound.value.remedy)


def test_a_purchase_that_rests_is_named(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10, 100.0)
    (bid,) = desk.run(action(kind="add", quantity=5, orderType="limit", limitPrice=96.0, timeInForce="gtc"))
    line = f"order {bid.order_id} (buy 5 AAA, {bid.state}) stays and can open it again"
    assert closing(desk)["reasoning"] == f"enough; {line}"


@pytest.mark.parametrize(("held", "free"), [(10.5, 10), (0.5, None), (0.3333333, None)])
def test_less_than_a_step_is_called_that(new_desk: NewDesk, held: float, free: float | None) -> None:
    desk = new_desk()
    desk.hold("AAA", held, 100.0)
    if free is not None:
        assert closing(desk)["quantity"] == free
        return
    with pytest.raises(UsageError, match=f"{held} AAA is less than a step of its listing"):
        closing(desk)


def test_the_close_of_what_was_sold_meanwhile_says_so(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 7, 100.0)
    twice = closing(desk)
    desk.run(twice, ratings={})
    (late,) = desk.run(twice, ratings={})
    assert "close with a sell of 7 contradicts the 0 shares held" in denied(late, DenialCode.NO_VERDICT)


def test_what_a_written_call_needs_is_not_sold(new_desk: NewDesk) -> None:
    desk = new_desk(options_mode="both", stock_only=False)
    desk.hold("AAA", 150, 100.0)
    desk.hold("AAA100917C00110000", -1, 2.0)
    assert closing(desk)["quantity"] == 50
    assert {name: closing(desk, "AAA100917C00110000")[name] for name in ("side", "quantity", "contract")} == {
        "side": "buy", "quantity": 1, "contract": "AAA100917C00110000",
    }  # fmt: skip


def test_what_cannot_be_closed_is_said(new_desk: NewDesk) -> None:
    desk = new_desk()
    with pytest.raises(UsageError, match="account paper holds no AAA") as none:
        closing(desk)
    assert none.value.remedy == "it holds nothing"
    desk.hold("AAA", 7, 100.0)
    halting.halt(desk.store, "paper", "a test", "somebody")
    with pytest.raises(UsageError, match=r"trading is halted: a test.*AAA was not closed"):
        closing(desk)


def test_a_halt_names_what_the_closes_that_it_cancels_leave_without_a_stop(new_desk: NewDesk) -> None:
    desk = new_desk(protect="stop:8%")
    desk.run(action(), action("BBB"))
    (closed,) = desk.run({**closing(desk), "orderType": "limit", "limitPrice": 101.0})
    assert closed.state == "submitted"
    with desk.store.read() as session:
        assert [(row.symbol, row.quantity, row.free) for row in left_bare(session, desk.settings)] == [("AAA", 10, 0)]
