"""Orders of a run that was opened with other settings than the trade worker has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chordesk.models.orders import DenialCode
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.states import OrderState
from chordesk.tools.orders import approvals
from tests.tools.orders.desk import Desk, action, denied

NewDesk = Callable[..., Desk]


def kept(desk: Desk, **changes: Any) -> dict[str, Any]:
    """Return the snapshot of a run that was opened with the desk's settings but these."""
    return snapshot(desk.settings.model_copy(update=changes))


@pytest.mark.parametrize(
    ("changes", "theirs", "ours"),
    [
        ({"trader_live": False}, "TRADER_LIVE=false", "TRADER_LIVE=true"),
        ({"max_order_notional": 1e9}, "DESK_MAX_ORDER_NOTIONAL=1000000000", "DESK_MAX_ORDER_NOTIONAL=10000"),
        ({"max_order_notional": 5.0}, "DESK_MAX_ORDER_NOTIONAL=5", "DESK_MAX_ORDER_NOTIONAL=10000"),
        ({"broker": "alpaca-paper"}, "DESK_BROKER=alpaca-paper", "DESK_BROKER=paper"),
        ({"approval": "manual"}, "DESK_APPROVAL=manual", "DESK_APPROVAL=not set"),
        ({"allow_short": True, "stock_only": False}, "DESK_STOCK_ONLY=false, DESK_ALLOW_SHORT=true", "true, "),
    ],
)
def test_an_order_of_a_run_with_others_is_not_sent_and_both_values_are_named(
    new_desk: NewDesk, changes: dict[str, Any], theirs: str, ours: str
) -> None:
    desk = new_desk()
    (outcome,) = desk.process(desk.decide(action(), settings=kept(desk, **changes)))
    assert outcome.state == OrderState.DENIED
    assert (outcome.denied.code, outcome.denied.measured) == (DenialCode.SETTINGS_DIFFER, theirs)
    assert ours in outcome.denied.limit
    assert f"opened with {theirs}, and the trade worker has" in outcome.denied.reason
    assert desk.positions() == {}


def test_a_restart_between_preview_and_submission_stops_the_order(new_desk: NewDesk) -> None:
    """An order that a person approved after the desk came back with another limit."""
    desk = new_desk(approval="above:1")
    decision = desk.decide(action(), settings=kept(desk))
    (waiting,) = desk.process(decision)
    assert waiting.state == OrderState.APPROVAL_PENDING
    with desk.store.session() as session:
        approvals.decide(session, desk.settings, str(waiting.order_id), True, "somebody", None)
    (outcome,) = desk.process(decision, max_symbol_notional=20_000.0)
    assert (outcome.denied.code, desk.positions()) == (DenialCode.SETTINGS_DIFFER, {})


def test_an_order_that_only_reduces_is_bound_by_switch_broker_and_approval_alone(new_desk: NewDesk) -> None:
    desk = new_desk()
    assert desk.process(desk.decide(action(), settings=kept(desk)))[0].state == OrderState.FILLED
    off = desk.decide(action(kind="close"), settings=kept(desk, trader_live=False))
    denied(desk.process(off)[0], DenialCode.SETTINGS_DIFFER)
    other = desk.decide(action(kind="close"), settings=kept(desk, max_order_notional=5.0, cooldown_hours=9.0))
    assert desk.process(other)[0].state == OrderState.FILLED
    assert desk.positions() == {}
