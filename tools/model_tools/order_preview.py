"""The tool orders_preview: the dry run of an order. Nothing is written or sent."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlmodel import Session, col, select

from chordesk.models.contracts import LEG_FORM, LEGS_AT_MOST, SHARES_PER_CONTRACT, multiplier_of, parse_leg, wrong_legs
from chordesk.models.errors import UsageError
from chordesk.models.order_terms import OrderType, TimeInForce, misfit, unsupported
from chordesk.models.orders import Denied
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Verdict
from chordesk.tools.model_tools.portfolio import store_of
from chordesk.tools.orders.checking import evaluate
from chordesk.tools.orders.drafting import SIDES, source_runs
from chordesk.tools.orders.previews import preview, terms_of
from chordesk.tools.orders.snapshots import Snapshot, symbols_of, take_snapshot
from chordesk.tools.registry import Arguments, Gaps, Symbol, ToolContext, ToolSpec, payload

_CONTRACT_SIDES = {"open": "sell", "add": "sell", "reduce": "buy", "close": "buy"}  # puts and covered calls are sold


class PreviewArguments(Arguments):
    symbol: Symbol
    action: Literal["open", "add", "reduce", "close"]
    side: Literal["buy", "sell"] | None = Field(None, description="if left out, what the action means")
    quantity: float | None = Field(None, gt=0, allow_inf_nan=False, description="shares or contracts")
    notional: float | None = Field(None, gt=0, allow_inf_nan=False, description="account currency, instead of quantity")
    order_type: OrderType = "market"
    limit_price: float | None = Field(None, gt=0, allow_inf_nan=False)
    stop_price: float | None = Field(None, gt=0, allow_inf_nan=False)
    trail_percent: float | None = Field(None, ge=0.1, le=50, description="of a trailing stop")
    time_in_force: TimeInForce = "day"
    contract: str | None = Field(None, max_length=21, description="OCC symbol of an option on the symbol")
    legs: list[Annotated[str, Field(max_length=40)]] = Field(
        [], max_length=LEGS_AT_MOST, description=f"contracts traded together, each as {LEG_FORM}; limit_price is net"
    )


def orders_preview(context: ToolContext, arguments: PreviewArguments) -> dict[str, Any]:
    """Return the canonical order with its hash, or the denial with the figure measured and the limit."""
    if (arguments.quantity is None) == (arguments.notional is None):
        raise UsageError("give exactly one of quantity and notional", remedy="quantity in shares or contracts")
    prices = (arguments.limit_price, arguments.stop_price, arguments.trail_percent)
    wrong = misfit(arguments.order_type, *prices)
    if wrong is not None:
        raise UsageError(f"{wrong[0]}: it needs {wrong[2]}", remedy="set order_type to match")
    wrong = unsupported(arguments.order_type, arguments.time_in_force, arguments.contract is not None)
    if wrong is not None:
        raise UsageError(wrong[0], remedy=f"set {wrong[2]}")
    if arguments.legs:
        _require_legs(arguments)
    if context.run_id is None:
        raise UsageError("a preview rests on the verdicts of a run, and this is none", remedy="call it in a run")
    store = store_of(context)
    with store.read() as session:
        order = _order(session, context, arguments, context.run_id)
        symbols = symbols_of(session, [order], context.account)
    snapshot = take_snapshot(context.market, symbols)
    with store.read() as session:
        found = _dry_run(session, context, order, snapshot)
    return payload(context, Gaps(), available=True, dryRun=True, **found)


def _require_legs(arguments: PreviewArguments) -> None:
    """Raise UsageError for legs that do not make an order."""
    parsed = [parse_leg(text) for text in arguments.legs]
    if None in parsed:
        raise UsageError(f"the leg {arguments.legs[parsed.index(None)]!r} cannot be read", remedy=LEG_FORM)
    wrong = wrong_legs(arguments.symbol, [leg for leg in parsed if leg is not None])
    if wrong is not None:
        raise UsageError(wrong, remedy="give 2 to 4 contracts on the symbol, each once")
    if arguments.side is None or arguments.quantity is None or arguments.limit_price is None or arguments.contract:
        raise UsageError(
            "an order with legs has a side, a quantity of units and a net limit_price, and no contract",
            remedy="side buy pays the net price, sell gets it",
        )


def _order(session: Session, context: ToolContext, arguments: PreviewArguments, run_id: str) -> Order:
    """The order is never written. Its id is of the run alone: a dry run has no place in a decision."""
    runs = [run.id for run in source_runs(session, run_id)]
    verdicts = session.exec(
        select(Verdict).where(col(Verdict.run_id).in_(runs), col(Verdict.symbol) == arguments.symbol)
    ).all()
    verdict = min(verdicts, key=lambda row: runs.index(row.run_id), default=None)
    values = arguments.model_dump()
    legs = [leg for leg in map(parse_leg, arguments.legs) if leg is not None]
    values["legs"] = [leg.model_dump() for leg in legs] or None
    values["side"] = arguments.side or (_CONTRACT_SIDES if arguments.contract else SIDES)[arguments.action]
    return Order(
        id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"chordesk/dry-run/{run_id}")),
        run_id=run_id,
        decision_id="",
        verdict_id=verdict.id if verdict else None,
        ordinal=0,
        account=context.account,
        multiplier=SHARES_PER_CONTRACT if legs else multiplier_of(arguments.contract or arguments.symbol),
        state=OrderState.DRAFTED.value,
        market_at=context.clock.now(),
        **values,
    )


def _dry_run(session: Session, context: ToolContext, order: Order, snapshot: Snapshot) -> dict[str, Any]:
    settings, market = context.settings, context.market.name
    found = evaluate(session, order, snapshot, settings, market, settings.broker, dry=True)
    if isinstance(found, Denied):
        return {"cleared": False, "denied": found.model_dump(mode="json", exclude={"cleared"})}
    made = preview(order, found, snapshot.now, terms_of(session, settings, market, settings.broker))
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
    data=False,
)
