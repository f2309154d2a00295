"""Plans of orders and positions, as they were written and in shares of now."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from chordesk.models.market import parse_contract
from chordesk.models.plans import PositionPlan
from chordesk.models.tables.orders import Order
from chordesk.tools.decimals import exact
from chordesk.tools.market.actions import contract_now, growth_since
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.protocol import Action


def plan_of(order: Order | None) -> PositionPlan | None:
    return PositionPlan.model_validate(order.plan) if order is not None and order.plan else None


def plan_now(order: Order | None, actions: Sequence[Action]) -> PositionPlan | None:
    """Return the plan of an order in shares of now. actions: all of its symbol since the order's day, at least.

    Its prices move as adjusted prices do, so that the distance from price to stop and target is the same before and
    after an action. Of a contract they are premiums, which a split alone divides.
    """
    plan = plan_of(order)
    if order is None or plan is None or not actions:
        return plan
    day = day_of(order.market_at, order.symbol)
    if order.contract is None and not order.legs:
        return plan.after(growth_since(actions, day))
    splits = Decimal(1)
    for action in actions:
        splits *= exact(action.split) if action.day > day else 1
    return plan.after(float(splits))


def contract_of_order(order: Order, actions: Sequence[Action]) -> str | None:
    """Return the OCC symbol that an order's contract bears now; None without one."""
    contract = parse_contract(order.contract or "")
    found = contract_now(contract, actions, day_of(order.market_at, order.symbol)) if contract is not None else None
    return found.symbol if found is not None else None
