"""orders_submit: for a person's scripts. In no role's tool set, ever: a model recommends, code acts."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from sqlmodel import Session, col, select

from models.order_tables import Order, Preview
from models.settings import Settings
from models.states import OrderState
from tools.orders import approvals
from tools.portfolio import store_of
from tools.registry import Arguments, ToolContext, ToolSpec

DISABLED = "Live trading disabled in this environment"
SCRIPT = "orders_submit"
_ON_ITS_WAY = (OrderState.APPROVED, OrderState.APPROVAL_PENDING)


class SubmitArguments(Arguments):
    order_id: str = Field(min_length=1, max_length=64)
    payload_hash: str = Field(pattern="^[0-9a-f]{64}$", description="of the preview that is to be sent")


def orders_submit(context: ToolContext, arguments: SubmitArguments) -> dict[str, Any]:
    """Hand a previewed order to the trade queue, which alone sends orders; where the policy asks a person, it waits
    for one first."""
    if not context.settings.trader_live:
        return {"ok": False, "error": DISABLED}
    with store_of(context).session() as session:
        order = session.get(Order, arguments.order_id, with_for_update=True)
        if order is None or order.account != context.account:
            return {"ok": False, "error": f"account {context.account} has no order {arguments.order_id}"}
        found = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
        if found is None or found.payload_hash != arguments.payload_hash:
            return {"ok": False, "error": f"order {order.id} was not previewed with the hash {arguments.payload_hash}"}
        _hand_over(session, context.settings, order, found)
        if order.state not in _ON_ITS_WAY:
            return {"ok": False, "error": f"order {order.id} is {order.state}", "state": order.state}
        return {"ok": True, "state": order.state, "orderId": order.id}


def _hand_over(session: Session, settings: Settings, order: Order, found: Preview) -> None:
    if order.state != OrderState.PREVIEWED:
        return
    approval = approvals.ask(session, settings, order, found)
    if not approvals.needs_person(settings, settings.real_money, found.notional):
        approvals.decide(session, settings, approval.id, approve=True, by=SCRIPT, why="a person's script")


ORDERS_SUBMIT = ToolSpec(
    name="orders_submit",
    description="Hand a previewed order, named with its payload hash, to the trade queue. For a person's scripts.",
    arguments=SubmitArguments,
    function=orders_submit,
    data=False,
)
