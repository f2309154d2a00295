"""orders_preview as the trader calls it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import select

from chordesk.agents.roles import ROLES
from chordesk.models.tables.orders import EquityMark, Preview
from chordesk.models.tables.runs import Decision
from chordesk.tools.ledger import ensure_account
from chordesk.tools.registry import ToolAnswer, ToolContext
from chordesk.tools.toolsets import TurnTools
from tests.tools.orders.desk import Desk, action

NewDesk = Callable[..., Desk]


def _context(desk: Desk, run_id: str | None, **changes: Any) -> ToolContext:
    settings = desk.settings.model_copy(update=changes)
    return ToolContext(desk.market, desk.market.clock, desk.store, settings, settings.account, run_id)


def _run_of(desk: Desk, decision_id: str) -> str:
    with desk.store.read() as session:
        return session.get_one(Decision, decision_id).run_id


def _researched(desk: Desk, *actions: Any) -> str:
    """A decision that is not processed yet, in a run of an account that is open."""
    with desk.store.session() as session:
        ensure_account(session, "paper", desk.settings.starting_cash)
    return desk.decide(*actions)


def _preview(desk: Desk, run_id: str | None, **arguments: Any) -> ToolAnswer:
    registry = TurnTools(ROLES["trader"].tools, _context(desk, run_id), 20, lambda arguments, answer: None)
    return asyncio.run(registry.call("orders_preview", {"symbol": "AAA", "action": "open", **arguments}))


def test_no_role_ever_has_a_tool_that_submits() -> None:
    assert [key for key, role in ROLES.items() if "orders_preview" in {tool.name for tool in role.tools}] == ["trader"]
    assert not [tool.name for role in ROLES.values() for tool in role.tools if "submit" in tool.name]


def test_a_dry_run_gives_the_answer_of_the_workflow_and_writes_nothing(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    decision = _researched(desk, action(quantity=3))
    answer = _preview(desk, _run_of(desk, decision), quantity=3)
    assert answer.success, answer.payload
    assert (answer.payload["cleared"], answer.payload["dryRun"]) == (True, True)
    assert desk.orders() == []
    with desk.store.read() as session:
        assert session.exec(select(Preview)).all() == []
        assert session.exec(select(EquityMark)).all() == []
    desk.process(decision)
    with desk.store.read() as session:
        made = session.exec(select(Preview)).one()
    ours, theirs = json.loads(answer.payload["payload"]), json.loads(made.payload)
    assert {key for key in theirs if ours[key] != theirs[key]} == {"clientOrderId", "decisionId"}
    assert answer.payload["notional"] == made.notional == 300.0


def test_a_dry_run_names_the_rule_that_denies(new_desk: NewDesk) -> None:
    desk = new_desk(max_order_notional=1_000)
    run_id = _run_of(desk, _researched(desk, action()))
    inside, over = _preview(desk, run_id, notional=1000), _preview(desk, run_id, notional=1100)
    assert inside.payload["cleared"] is True
    assert over.payload["cleared"] is False
    assert over.payload["denied"]["code"] == "notional_per_order"
    assert set(over.payload["denied"]) == {"code", "reason", "measured", "limit"}
    unresearched = _preview(desk, run_id, symbol="BBB", quantity=1)
    assert unresearched.payload["denied"]["code"] == "no_verdict"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "exactly one of quantity and notional"),
        ({"quantity": 1, "notional": 1}, "exactly one of quantity and notional"),
        ({"quantity": 1, "order_type": "limit"}, "a limit order without a limit price"),
        ({"quantity": 1, "limit_price": 1}, "a market order with a limit price"),
        ({"quantity": 1, "order_type": "stop"}, "a stop order without a stop price"),
        ({"quantity": 1, "time_in_force": "fok"}, "argument 'time_in_force' is 'fok'"),
        ({"quantity": -1}, "argument 'quantity' is -1"),
        ({"quantity": 1, "action": "hold"}, "argument 'action' is 'hold'"),
    ],
)
def test_an_order_that_cannot_be_previewed_is_refused(new_desk: NewDesk, arguments: dict[str, Any], why: str) -> None:
    desk = new_desk()
    answer = _preview(desk, _run_of(desk, _researched(desk, action())), **arguments)
    assert not answer.success
    assert why in answer.payload["error"]


def test_a_preview_needs_a_run(new_desk: NewDesk) -> None:
    answer = _preview(new_desk(), None, quantity=1)
    assert not answer.success
    assert "rests on the verdicts of a run" in answer.payload["error"]
