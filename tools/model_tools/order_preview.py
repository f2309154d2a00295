"""The tool orders_preview: the dry run of an order. Nothing is written or sent."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from sqlmodel import Session, col, select

from chordesk.models.answers import ActionKind, AskedOrder
from chordesk.models.errors import UsageError
from chordesk.models.order_terms import OrderType
from chordesk.models.orders import Denied
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Verdict
from chordesk.tools.ledger import account_money
from chordesk.tools.model_tools.portfolio import store_of
from chordesk.tools.orders.checking import evaluate
from chordesk.tools.orders.drafting import SIDES, columns_of, source_runs
from chordesk.tools.orders.previews import preview, terms_of
from chordesk.tools.orders.snapshots import Snapshot, symbols_of, take_snapshot, with_facts
from chordesk.tools.registry import Answer, Arguments, Gaps, Symbol, ToolContext, ToolSpec, Without, payload

_CONTRACT_SIDES = {"open": "sell", "add": "sell", "reduce": "buy", "close": "buy"}  # puts and covered calls are sold


class PreviewArguments(AskedOrder, Arguments):
    symbol: Symbol
    action: Literal[ActionKind.OPEN, ActionKind.ADD, ActionKind.REDUCE, ActionKind.CLOSE]
    side: Literal["buy", "sell"] | None = Field(None, description="if left out, what the action means")
    order_type: OrderType = "market"


class PreviewAnswer(Answer):
    dryRun: Literal[True]
    cleared: bool
    denied: NotRequired[Annotated[Denied, Without("cleared")]]
    note: NotRequired[str | None]
    waitsForPerson: NotRequired[Any]
    orderType: NotRequired[str]
    limitPrice: NotRequired[float | None]
    quantity: NotRequired[float | None]
    price: NotRequired[float | None]
    notional: NotRequired[float | None]
    payload: NotRequired[Any]
    payloadHash: NotRequired[str]
    clientOrderId: NotRequired[str]


def orders_preview(context: ToolContext, arguments: PreviewArguments) -> dict[str, Any]:
    """Return the canonical order with its hash, or the denial with the figure measured and the limit."""
    sides = _CONTRACT_SIDES if arguments.contract else SIDES
    asked = arguments.model_copy(update={"side": arguments.side or sides[arguments.action]})
    columns, malformed = columns_of(asked, context.settings)
    if malformed is not None:
        raise UsageError(f"{malformed.reason}: {malformed.measured}", remedy=f"give {malformed.limit}")
    if context.run_id is None:
        raise UsageError("a preview rests on the verdicts of a run, and this is none", remedy="call it in a run")
    store = store_of(context)
    with store.read() as session:
        order = _order(session, context, columns, context.run_id)
        symbols = symbols_of(session, [order], context.account)
        money = account_money(session, context.settings, context.account)
    taken = take_snapshot(context.market, symbols, money)
    snapshot = with_facts(taken, store, context.settings, context.market, order)
    with store.read() as session:
        found = _dry_run(session, context, order, snapshot)
    return payload(context, Gaps(), available=True, dryRun=True, **found)


def _order(session: Session, context: ToolContext, columns: dict[str, Any], run_id: str) -> Order:
    """The order is never written. Its id is of the run alone: a dry run has no place in a decision."""
    runs = [run.id for run in source_runs(session, run_id)]
    verdicts = session.exec(
        select(Verdict).where(col(Verdict.run_id).in_(runs), col(Verdict.symbol) == columns["symbol"])
    ).all()
    verdict = min(verdicts, key=lambda row: runs.index(row.run_id), default=None)
    return Order(
        id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"chordesk/dry-run/{run_id}")),
        run_id=run_id,
        decision_id="",
        verdict_id=verdict.id if verdict else None,
        ordinal=0,
        account=context.account,
        state=OrderState.DRAFTED.value,
        market_at=context.clock.now(),
        **columns,
    )


def _dry_run(session: Session, context: ToolContext, order: Order, snapshot: Snapshot) -> dict[str, Any]:
    settings, market = context.settings, context.market.name
    found = evaluate(session, order, snapshot, settings, market, settings.broker, dry=True)
    if isinstance(found, Denied):
        return {"cleared": False, "denied": found.model_dump(mode="json", exclude={"cleared"})}
    terms = terms_of(session, settings, market, settings.broker, snapshot.terms_of(order.symbol))
    made = preview(order, found, snapshot.now, terms)
    return {
        "cleared": True,
        "note": found.note,
        "waitsForPerson": found.unpriced,
        "orderType": order.order_type,
        "limitPrice": order.limit_price,
        "quantity": order.quantity,
        "price": made.price,
        "notional": made.notional,
        "payload": made.payload,
        "payloadHash": made.payload_hash,
        "clientOrderId": order.id,
    }


ORDERS_PREVIEW = ToolSpec(
    name="orders_preview",
    description=(
        "Dry run of one order on a symbol of this run: whether the risk rules clear it, at what size, price and "
        "notional, or the rule that denies it with the figure measured and the limit. Makes and sends nothing."
    ),
    arguments=PreviewArguments,
    function=orders_preview,
    answer=PreviewAnswer,
    data=False,
)
