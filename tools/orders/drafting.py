"""Drafting: a decision is claimed once, each of its actions becomes a row, denied or not, and a line of the trader's
notes."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from itertools import chain
from typing import Any

import sqlalchemy
from pydantic import ValidationError
from sqlalchemy import Row, bindparam, update
from sqlmodel import Session, col, select

from chordesk.models import event_log, events
from chordesk.models.answers import ActionKind, AskedOrder, Rating
from chordesk.models.errors import OrderError
from chordesk.models.market import (
    LEG_FORM,
    SHARES_PER_CONTRACT,
    legs_of,
    multiplier_of,
    parse_contract,
    parse_leg,
    wrong_legs,
)
from chordesk.models.order_terms import TIMES_IN_FORCE, misfit, unsupported
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.plans import DecidedAction, ExitReason
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_FINAL, ORDER_WORKING, OrderState, RunKind, RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Fill, Order, Preview, TraderNote
from chordesk.models.tables.runs import Decision, Run, Step, Verdict
from chordesk.models.text import utc
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.ledger import account_money
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import booking
from chordesk.tools.orders.booking import deny_order
from chordesk.tools.orders.reservations import last_order
from chordesk.tools.risk.codes import deny
from chordesk.tools.risk.conduct import no_verdict

WITHOUT_ORDER = frozenset({ActionKind.HOLD, ActionKind.WATCH})
SIDES = {"open": "buy", "add": "buy", "reduce": "sell", "close": "sell"}
_ENTRIES = (ActionKind.OPEN, ActionKind.ADD)
_TURNED = (Rating.PASS, Rating.CAUTION)  # verdicts on which what is held is given back
_COLUMNS = {"symbol", "action", "side", "quantity", "notional", "order_type", "limit_price", "contract"}
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
    own = session.get(Run, run_id)
    if own is None:
        raise OrderError(f"there is no run {run_id!r}", remedy="`desk runs list` shows the runs")
    parent = session.get(Run, own.parent_run_id) if own.parent_run_id else None
    return [own] if parent is None else [own, parent]


def draft_orders(session: Session, settings: Settings, decision: Decision, now: dt.datetime) -> list[str]:
    """Write the decision's orders; return their ids by ordinal. Existing rows are kept. now: market time. hold and
    watch make no order. A malformed action is denied at once, and so is an entry on a symbol without a verdict of the
    decision's runs."""
    verdicts = _verdicts(session, source_runs(session, decision.run_id))
    ids = []
    for ordinal, action in enumerate(decision.actions):
        raw = action if isinstance(action, Mapping) else {}
        if str(raw.get("action")) in WITHOUT_ORDER:
            continue
        found = order_id(decision.id, ordinal)
        ids.append(found)
        if session.get(Order, found) is None:
            _draft(session, settings, decision, ordinal, raw, verdicts, now)
    return ids


def _verdicts(session: Session, runs: list[Run]) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    for run in runs:
        for verdict in session.exec(select(Verdict).where(col(Verdict.run_id) == run.id)):
            found.setdefault(verdict.symbol, verdict)
    return found


def _draft(
    session: Session,
    settings: Settings,
    decision: Decision,
    ordinal: int,
    raw: Mapping[str, Any],
    verdicts: Mapping[str, Verdict],
    now: dt.datetime,
) -> None:
    columns, denied = _parse(raw, settings)
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
    if verdict is not None and order.action not in _ENTRIES and verdict.rating in _TURNED:
        order.exit_reason = ExitReason.VERDICT
    session.add(order)
    session.flush()
    booking.state(session, order, None)
    if denied is None and verdict is None and order.action not in (ActionKind.CLOSE, ActionKind.REDUCE):
        denied = no_verdict(order.symbol)
    if denied is not None:
        deny_order(session, order, denied)


def _parse(raw: Mapping[str, Any], settings: Settings) -> tuple[dict[str, Any], Denied | None]:
    """Return the row's columns, and a denial if the action is malformed."""
    try:
        action = DecidedAction.model_validate(raw)
    except ValidationError as error:
        item = error.errors()[0]
        where = ".".join(str(part) for part in item["loc"]) or "action"
        known = {"symbol": _text(raw.get("symbol")), "action": _text(raw.get("action"))}
        return known, _malformed(f"{where}: {item['msg']}", _text(item.get("input"), 80), item["msg"])
    columns, denied = columns_of(action, settings)
    if action.plan is not None and action.action in _ENTRIES:
        columns["plan"] = action.plan.model_dump(mode="json", exclude_none=True)
    return columns, denied


def columns_of(action: AskedOrder, settings: Settings) -> tuple[dict[str, Any], Denied | None]:
    """Return a row's columns, and a denial if the action contradicts itself or is not for the account's broker."""
    columns: dict[str, Any] = action.model_dump(mode="json", include=_COLUMNS)
    columns["time_in_force"] = action.time_in_force or "day"
    if action.contract is not None:
        parsed = parse_contract(action.contract.strip().upper())
        columns["contract"] = parsed.symbol if parsed else action.contract
        columns["multiplier"] = multiplier_of(columns["contract"])
    if action.legs:
        legs = [leg for leg in map(parse_leg, action.legs) if leg is not None]
        columns["legs"], columns["multiplier"] = [leg.model_dump() for leg in legs], SHARES_PER_CONTRACT
    wrong = _wrong_package(action) if action.legs else _contradiction(action, settings.allow_short)
    if wrong is None:
        option = bool(action.legs) or action.contract is not None
        terms = settings.refusal(action.order_type or "", columns["time_in_force"], option=option)
        wrong = _malformed(*terms) if terms is not None else None
    return columns, wrong


def _text(value: Any, most: int = 21) -> str:
    return "none" if value is None else str(value)[:most]


def _malformed(reason: str, measured: str, limit: str) -> Denied:
    return deny(DenialCode.MALFORMED, reason, measured, limit)


def _wrong_package(action: AskedOrder) -> Denied | None:
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


def _contradiction(action: AskedOrder, allow_short: bool) -> Denied | None:
    side = action.side or "none"
    # An option is opened by selling it. What is given back is sold or, where it is short, bought: what is held decides
    # that, in `direction_rule`, which lets an exit open nothing.
    either = allow_short or action.contract is not None or action.action not in _ENTRIES
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


# Decisions: claimed once, put on record with the reasons for which some actions become no order, and written for those
# that no model made: a person's command, or the desk's own protection of a position.


def write_decision(
    session: Session,
    market: MarketData,
    account: str,
    kind: RunKind,
    author: tuple[str, str],
    why: str,
    actions: Sequence[dict[str, Any]],
) -> Decision:
    """Write a run that is done, its step and its decision; return the decision. author: (provider, name)."""
    now, (provider, name) = utcnow(), author
    run = Run(
        kind=kind,
        state=RunState.DONE,
        account=account,
        provider=provider,
        model=name,
        market=market.name,
        market_now=market.clock.now(),
        notes=[why],
        deadline_at=now,
        finished_at=now,
    )
    session.add(run)
    session.flush()
    event_log.append(session, [events.started(run), events.completed(run)])
    step = Step(run_id=run.id, kind=StepKind.SUBMIT, state=StepState.DONE, finished_at=now)
    session.add(step)
    session.flush()
    decision = Decision(
        run_id=run.id,
        step_id=step.id,
        account=account,
        status="completed",
        actions=list(actions),
        reasoning=why,
        author=name,
        processed_at=now,
    )
    session.add(decision)
    session.flush()
    return decision


def claim_decision(session: Session, decision: Decision) -> bool:
    taken = session.exec(
        update(Decision)
        .where(col(Decision.id) == decision.id, col(Decision.processed_at).is_(None))
        .values(processed_at=utcnow())
        .execution_options(synchronize_session=False)
    )
    return taken.rowcount == 1


def decision_facts(session: Session, decision: Decision) -> dict[str, Any]:
    """Return the facts of a decision whose orders are drafted: its actions as given, and the reason for each that
    goes no further."""
    orders = _orders_of(session, decision)
    suppressed = [
        {"ordinal": ordinal, "why": why}
        for ordinal, action in enumerate(decision.actions)
        if (why := _suppressed(orders.get(order_id(decision.id, ordinal)), action)) is not None
    ]
    return {
        "decision": decision.id,
        "run_id": decision.run_id,
        "account": decision.account,
        "by": decision.author,
        "why": decision.reasoning or None,
        "actions": decision.actions,
        "suppressed": suppressed,
    }


def _orders_of(session: Session, decision: Decision) -> dict[str, Order]:
    return {order.id: order for order in session.exec(select(Order).where(col(Order.decision_id) == decision.id))}


def _suppressed(order: Order | None, action: Any) -> str | None:
    if order is not None:
        return f"{order.denial_code}: {order.denial_reason}" if order.denial_code else None
    fields = action if isinstance(action, Mapping) else {}
    return f"{fields.get('action')}: {fields.get('reasoning') or 'no reason given'}"


LINES_A_SYMBOL = 3
LINES_AT_MOST = 60  # of one prompt, however many symbols it is about
LINE_CHARS = 200
# The columns that a line is made of.
NOTED = ("id", "decision_id", "ordinal", "symbol", "action", "outcome", "line", "market_at")
Note = TraderNote | Row[Any]
_NOT_SENT = {
    OrderState.DRAFTED: "not checked yet",
    OrderState.PREVIEWED: "checked, not sent",
    OrderState.APPROVAL_PENDING: "waits for a person's approval",
    OrderState.APPROVED: "approved, not sent yet",
}


def write_notes(session: Session, settings: Settings, decision: Decision, now: dt.datetime) -> None:
    """Write or renew one note for each action, as things stand. now: market time; a note keeps that of the first
    call."""
    rows = session.exec(select(TraderNote).where(col(TraderNote.decision_id) == decision.id)).all()
    written, orders = {row.ordinal: row for row in rows}, _orders_of(session, decision)
    for ordinal, action in enumerate(decision.actions):
        raw = action if isinstance(action, Mapping) else {}
        order = orders.get(order_id(decision.id, ordinal))
        row = written.get(ordinal) or TraderNote(
            account=decision.account,
            symbol=order.symbol if order else _short(raw.get("symbol")).upper(),
            decision_id=decision.id,
            ordinal=ordinal,
            action=order.action if order else _short(raw.get("action")),
            outcome="no_order",
            line="",
            market_at=now,
        )
        row.outcome = order.state if order else row.outcome
        row.line = _line(row, _of_order(session, order, settings) if order else _without_order(raw))
        session.add(row)
    session.flush()


def last_notes(
    session: Session, settings: Settings, account: str, symbols: Iterable[str], now: dt.datetime
) -> dict[str, list[str]]:
    """Return by symbol the last lines that are not of a later market time, oldest first; LINES_A_SYMBOL of each and
    at most LINES_AT_MOST in all. The line of an order that has changed since shows its present state."""
    connection, known = session.connection(), {"account": account, "now": now}
    each = (connection.execute(_newest(), {**known, "symbol": symbol}).all() for symbol in set(symbols))
    rows = sorted(chain.from_iterable(each), key=lambda row: (row.market_at, row.id), reverse=True)[:LINES_AT_MOST]
    if not rows:
        return {}
    ids = [order_id(row.decision_id, row.ordinal) for row in rows]
    orders = {order.id: order for order in session.exec(select(Order).where(col(Order.id).in_(ids))).all()}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for row, order_key in reversed(list(zip(rows, ids, strict=True))):
        found[row.symbol].append(_now(session, row, orders.get(order_key), settings))
    return dict(found)


@cache
def _newest() -> Any:
    """Return the statement for the last notes on a symbol, built once: each turn runs it, and composing it costs more
    than running it."""
    return (
        sqlalchemy.select(*(getattr(TraderNote, name) for name in NOTED))
        .where(col(TraderNote.account) == bindparam("account"), col(TraderNote.symbol) == bindparam("symbol"))
        .where(col(TraderNote.market_at) <= bindparam("now"))
        .order_by(col(TraderNote.market_at).desc(), col(TraderNote.id).desc())
        .limit(LINES_A_SYMBOL)
    )


def _now(session: Session, row: Note, order: Order | None, limits: Settings) -> str:
    if order is None or (order.state in ORDER_FINAL and order.state == row.outcome):
        return row.line
    return _line(row, _of_order(session, order, limits))


def _line(row: Note, what: str) -> str:
    text = " ".join(f"{row.market_at:%Y-%m-%d} {row.action} {row.symbol}: {what}".split())
    return text if len(text) <= LINE_CHARS else text[: LINE_CHARS - 1] + "…"


def _of_order(session: Session, order: Order, limits: Settings) -> str:
    state = OrderState(order.state)
    if state is OrderState.DENIED:
        return f"not sent, {order.denial_code}: {order.denial_reason}"
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    traded = order.contract or ", ".join(str(leg) for leg in legs_of(order.legs))
    what = f"{order.side} {plain(order.quantity or 0)}{f' {traded}' if traded else ''}"
    # The price of the check, not the broker's: in replay a fill is of the next open, which is not known yet.
    if preview:
        currency = preview.currency or account_money(session, limits, order.account).base
        what += f" at {money(preview.price, currency)}"
    if state in _NOT_SENT:
        return f"{what}: {_NOT_SENT[state]}"
    fills = session.exec(select(Fill).where(col(Fill.order_id) == order.id)).all()
    filled = sum((exact(fill.quantity) for fill in fills), Decimal(0))
    text = f"{what}: {state.replace('_', ' ')}, {plain(filled)} filled"
    cooldown = _cooldown(session, order, limits) if filled or state in ORDER_WORKING else ""
    return f"{text}; {cooldown}" if cooldown else text


def _cooldown(session: Session, order: Order, limits: Settings) -> str:
    """Return the end of the symbol's cooldown, which runs from the newest order on it."""
    if not limits.cooldown_hours:
        return ""
    other = last_order(session, order, order.market_at, limits)
    last = max(order.market_at, other.market_at) if other else order.market_at
    until = last + dt.timedelta(hours=limits.cooldown_hours)
    return f"nothing opens on it before {utc(until)}"


def _without_order(raw: Mapping[str, Any]) -> str:
    why = _short(raw.get("reasoning"), LINE_CHARS)
    return f"no order; {why}" if why else "no order"


def _short(value: Any, most: int = 21) -> str:
    return str(value or "")[:most]
