"""Drafting: every trading action of a decision becomes a row first, denied or not."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from sqlmodel import Session, col, select

from chordesk.models.contracts import SHARES_PER_CONTRACT, multiplier_of, parse_contract
from chordesk.models.errors import OrderError
from chordesk.models.order_terms import TIMES_IN_FORCE, misfit, unsupported
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.research import ActionKind, TraderAction
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Decision, Run, Verdict
from chordesk.models.trading.legs import LEG_FORM, parse_leg, wrong_legs
from chordesk.tools.orders.records import events
from chordesk.tools.orders.records.states import deny_order
from chordesk.tools.risk import deny, no_verdict

WITHOUT_ORDER = frozenset({ActionKind.HOLD, ActionKind.WATCH})
SIDES = {"open": "buy", "add": "buy", "reduce": "sell", "close": "sell"}
_COLUMNS = {"action", "side", "quantity", "notional", "order_type", "limit_price", "contract"}
_COLUMNS |= {"stop_price", "trail_percent", "time_in_force"}


def order_id(decision_id: str, ordinal: int) -> str:
    """Return the order's id, also its client order id at a broker: derived from its place in the decision, never its
    content."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"chordesk/order/{decision_id}/{ordinal}"))


def load_decision(session: Session, decision_id: str) -> Decision:
    """Return the decision's row. Raises OrderError when there is none."""
    decision = session.get(Decision, decision_id)
    if decision is None:
        raise OrderError(
            f"there is no decision {decision_id!r}", remedy="`desk runs list` shows the runs that have one"
        )
    return decision


def source_runs(session: Session, run_id: str) -> list[Run]:
    """Return the runs a decision rests on, nearest first: its own, and the one that run was started from."""
    own = session.get(Run, run_id)
    if own is None:
        raise OrderError(f"there is no run {run_id!r}", remedy="`desk runs list` shows the runs")
    parent = session.get(Run, own.parent_run_id) if own.parent_run_id else None
    return [own] if parent is None else [own, parent]


def draft_orders(session: Session, decision: Decision, now: dt.datetime, allow_short: bool) -> list[str]:
    """Write the decision's orders; return their ids by ordinal. Existing rows are kept as they are.

    now: market time. hold and watch make no order. A malformed action is denied at once, and one on a symbol without a
    verdict of the decision's runs, unless it gives back what is held.
    """
    verdicts = _verdicts(session, source_runs(session, decision.run_id))
    ids = []
    for ordinal, action in enumerate(decision.actions):
        raw = action if isinstance(action, Mapping) else {}
        if str(raw.get("action")) in WITHOUT_ORDER:
            continue
        found = order_id(decision.id, ordinal)
        ids.append(found)
        if session.get(Order, found) is None:
            _draft(session, decision, ordinal, raw, verdicts, now, allow_short)
    return ids


def _verdicts(session: Session, runs: list[Run]) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    for run in runs:
        for verdict in session.exec(select(Verdict).where(col(Verdict.run_id) == run.id)):
            found.setdefault(verdict.symbol, verdict)
    return found


def _draft(
    session: Session,
    decision: Decision,
    ordinal: int,
    raw: Mapping[str, Any],
    verdicts: Mapping[str, Verdict],
    now: dt.datetime,
    allow_short: bool,
) -> None:
    columns, denied = _parse(raw, allow_short)
    verdict = verdicts.get(columns["symbol"])
    order = Order(
        id=order_id(decision.id, ordinal),
        run_id=decision.run_id,
        decision_id=decision.id,
        verdict_id=verdict.id if verdict else None,
        ordinal=ordinal,
        account=decision.account,
        state=OrderState.DRAFTED.value,
        market_at=now,
        **columns,
    )
    session.add(order)
    session.flush()
    events.state(session, order, None)
    if denied is None and verdict is None and order.action not in (ActionKind.CLOSE, ActionKind.REDUCE):
        denied = no_verdict(order.symbol)
    if denied is not None:
        deny_order(session, order, denied)


def _parse(raw: Mapping[str, Any], allow_short: bool) -> tuple[dict[str, Any], Denied | None]:
    """Return the row's columns, and a denial if the action is malformed."""
    try:
        action = TraderAction.model_validate(raw)
    except ValidationError as error:
        item = error.errors()[0]
        where = ".".join(str(part) for part in item["loc"]) or "action"
        known = {"symbol": _text(raw.get("symbol")), "action": _text(raw.get("action"))}
        return known, _malformed(f"{where}: {item['msg']}", _text(item.get("input"), 80), item["msg"])
    columns: dict[str, Any] = action.model_dump(mode="json", include=_COLUMNS)
    columns["time_in_force"] = action.time_in_force or "day"
    if action.contract is not None:
        parsed = parse_contract(action.contract.strip().upper())
        columns["contract"] = parsed.symbol if parsed else action.contract
        columns["multiplier"] = multiplier_of(columns["contract"])
    if action.legs:
        legs = [leg for leg in map(parse_leg, action.legs) if leg is not None]
        columns["legs"], columns["multiplier"] = [leg.model_dump() for leg in legs], SHARES_PER_CONTRACT
    denied = _wrong_package(action) if action.legs else _contradiction(action, allow_short)
    return {**columns, "symbol": action.symbol}, denied


def _text(value: Any, most: int = 21) -> str:
    return "none" if value is None else str(value)[:most]


def _malformed(reason: str, measured: str, limit: str) -> Denied:
    return deny(DenialCode.MALFORMED, reason, measured, limit)


def _wrong_package(action: TraderAction) -> Denied | None:
    """Return why an action with legs is no order, None when it is one."""
    texts = action.legs or []
    unread = [text for text in texts if parse_leg(text) is None]
    if unread:
        return _malformed(f"the leg {unread[0]!r} is not of the form: {LEG_FORM}", f"leg {unread[0]}", LEG_FORM)
    wrong = wrong_legs(action.symbol, [leg for leg in map(parse_leg, texts) if leg is not None])
    if wrong is not None:
        return _malformed(wrong, f"{len(texts)} legs", "2 to 4 contracts on the symbol, each once")
    if action.contract is not None:
        return _malformed("a contract beside legs", f"contract {action.contract}", "either a contract or legs")
    if action.side is None or action.quantity is None or action.notional is not None:
        limit = "side buy (pays net) or sell (gets net), and a quantity of units"
        return _malformed("an order with legs has a side and a quantity", "side, quantity or both missing", limit)
    if action.order_type != "limit" or action.limit_price is None:
        limit = "a limit: the net price of one unit per share"
        return _malformed("an order with legs has a net limit price", f"order type {action.order_type}", limit)
    return None


def _contradiction(action: TraderAction, allow_short: bool) -> Denied | None:
    side = action.side or "none"
    # An option is opened by selling it, or given back by either side: what is held decides.
    either = allow_short or action.contract is not None
    if action.side is None or (not either and side != SIDES[action.action]):
        allowed = "buy or sell" if either else SIDES[action.action]
        return _malformed(f"the side {side} contradicts the action {action.action}", f"side {side}", f"side {allowed}")
    if (action.quantity is None) == (action.notional is None):
        given = "neither" if action.quantity is None else "both"
        return _malformed(f"{given} of quantity and notional given", given, "exactly one of quantity and notional")
    if action.contract is not None and action.quantity is None:
        reason = "an option is ordered by its number of contracts, and a notional is given"
        return _malformed(reason, f"notional {action.notional}", "a quantity")
    if action.order_type is None:
        return _malformed("no order type given", "order type none", f"one of {', '.join(TIMES_IN_FORCE)}")
    wrong = misfit(action.order_type, action.limit_price, action.stop_price, action.trail_percent)
    wrong = wrong or unsupported(action.order_type, action.time_in_force or "day", action.contract is not None)
    return _malformed(*wrong) if wrong else None
