"""From a decision to its fills, the pass of each minute, and the context of a backtest's orders. A second call does
nothing twice."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError, OrderError
from chordesk.models.market import parse_contract
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.notices import is_noted, note
from chordesk.models.orders import Denied
from chordesk.models.plans import ExitReason, PositionPlan
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import PAPER, is_backtest
from chordesk.models.states import ORDER_FINAL, OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Order, Position, Preview
from chordesk.models.tables.runs import Decision
from chordesk.models.tables.runtime import Notice
from chordesk.tools import rogue_calls
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.ledger import account_money, ensure_account, value
from chordesk.tools.market.clock import account_day, day_of
from chordesk.tools.market.prices import actions_of
from chordesk.tools.market.protocol import Action, MarketData
from chordesk.tools.orders import approvals, audit, halting, mandates
from chordesk.tools.orders.accounts import FencingLease, equity_levels
from chordesk.tools.orders.audit_watch import halt_if_broken
from chordesk.tools.orders.booking import advance, load_order, lock_order, open_orders
from chordesk.tools.orders.checking import SizedOrder, evaluate, settings_denial
from chordesk.tools.orders.drafting import claim_decision, decision_facts, draft_orders, load_decision, write_notes
from chordesk.tools.orders.previews import terms_of, waits_for_person, write_preview
from chordesk.tools.orders.protection import keep_protected
from chordesk.tools.orders.reconciliation import latest
from chordesk.tools.orders.sessions import meet_sessions
from chordesk.tools.orders.snapshots import Snapshot, symbols_of, with_facts
from chordesk.tools.orders.submitting import (
    ORDERS_SECONDS,
    QuoteCache,
    SubmissionContext,
    cancel,
    cancel_disallowed,
    deny_and_record,
    ensure_reconciled,
    submit_or_poll,
)
from chordesk.tools.position_plans import contract_of_order, plan_now

_STRIKE_DIGITS = 8
_LONGEST_WRITTEN = 1_100  # days: the longest listed lives
_WHY = {
    ExitReason.TARGET: "half of its premium is earned: it can be bought back",
    ExitReason.INVALIDATION: "it costs three times its premium: buy it back, or roll it",
    ExitReason.HORIZON: "a week is left until it expires: buy it back, or roll it",
}


def note_written(context: SubmissionContext, snapshot: Snapshot) -> int:
    """Note each end of the plan of a written contract, once; return how many are noted now."""
    account, noted = context.broker.name, 0
    if is_backtest(account):
        return 0
    actions = _of_contracts(context)
    with context.store.session() as session:
        written = select(Position).where(col(Position.account) == account, col(Position.quantity) < 0)
        for row in session.exec(written).all():
            order = _writing(session, row, actions) if parse_contract(row.symbol) is not None else None
            plan = plan_now(order, actions.get(order.symbol, ())) if order is not None else None
            if order is None or plan is None:
                continue
            price = _price(snapshot, row.symbol)
            reason = written_end(plan, day_of(snapshot.now, order.symbol), price)
            key = f"{NoticeKind.PLAN_REVIEW.value}:{order.id}:{reason}"
            if reason is None or is_noted(session, key):
                continue
            at = f", now {money(price)}" if price is not None else ""
            facts = {"account": account, "order": order.id, "written": f"{row.symbol}{at}: {_WHY[reason]}"}
            kind = NoticeKind.PLAN_REVIEW.value
            made = Notice(
                key=key, kind=kind, subject=order.symbol, facts=facts, run_id=order.run_id, occurred_at=utcnow()
            )
            note(session, made)
            noted += 1
    return noted


def _of_contracts(context: SubmissionContext) -> Mapping[str, Sequence[Action]]:
    """Return the actions on the shares behind the account's contracts, by symbol."""
    with context.store.read() as session:
        held = session.exec(select(Position.symbol).where(col(Position.account) == context.broker.name)).all()
    since = account_day(context.market.clock.now()) - dt.timedelta(days=_LONGEST_WRITTEN)
    shares = {contract.underlying for name in held if (contract := parse_contract(name)) is not None}
    return {symbol: actions_of(context.market, symbol, since) for symbol in sorted(shares)}


def _writing(session: Session, row: Position, actions: Mapping[str, Sequence[Action]]) -> Order | None:
    """Return the order that last wrote a contract, under the name that it had then."""
    contract = parse_contract(row.symbol)
    if contract is None:
        return None
    any_strike = col(Order.contract).startswith(contract.symbol[:-_STRIKE_DIGITS])
    which = (col(Order.account) == row.account, any_strike, col(Order.side) == "sell")
    entries = (*which, col(Order.action).in_(("open", "add")))
    sent = select(Order).where(*entries, col(Order.fence).is_not(None)).order_by(col(Order.created_at).desc())
    later = actions.get(contract.underlying, ())
    return next((one for one in session.exec(sent) if contract_of_order(one, later) == row.symbol), None)


def _price(snapshot: Snapshot, contract: str) -> float | None:
    try:
        return snapshot.quote(contract).price
    except MarketError:
        return None


def written_end(plan: PositionPlan, day: dt.date, price: float | None) -> ExitReason | None:
    """Return why a written contract is to be bought back or rolled on a day, at its last price; None while it is not,
    and of its price where none is known."""
    if price is not None and plan.stop is not None and price >= plan.stop:
        return ExitReason.INVALIDATION
    if price is not None and plan.target is not None and price <= plan.target:
        return ExitReason.TARGET
    return ExitReason.HORIZON if plan.ends is not None and day >= plan.ends else None


Counts = dict[str, int]


def maintain_orders(context: SubmissionContext, context_of: Callable[[str], SubmissionContext] | None = None) -> Counts:
    """Make one pass over the account's orders; return counts. Safe at any time and any number of times. context_of: by
    run id, the context with the market and day of that run; the same for all by default. With live trading off the
    broker is not called. Raises FencedOff when another process submits for the account."""
    settings, account = context.settings, context.broker.name
    if settings.trader_live:
        context.lease.acquire()  # first: a process that is fenced off leaves all of it to the one that is not
    halted = halting.enforce_file(context.store, settings, account, context.lease.owner)
    halt_if_broken(context.store, settings, account, context.lease.owner)
    if not settings.trader_live:
        _record(context, halted)
        return {"expired": len(_expire(context))}
    with context.store.session() as session:
        ensure_account(session, account, settings.starting_cash, settings.currency)
    cancel_disallowed(context)  # first: on paper, looking an order up fills it, and reconciling does so
    _record(context, halted)  # after the cancels: they do not wait for the audit log
    unready = ensure_reconciled(context, ORDERS_SECONDS / 2)
    meet_sessions(context)
    with context.store.read() as session:
        orders = open_orders(session, account)
        symbols = frozenset(symbols_of(session, orders, account))
        money = account_money(session, settings, account)
    expired = _expire(context)  # after the cancels too
    quotes = QuoteCache(context.market, symbols, money)
    if unready is None:
        _mark_equity(context, quotes)
    for own, ids in _by_market(context, orders, context_of):
        meet_sessions(own)
        submit_or_poll(own, quotes if own is context else QuoteCache(own.market, symbols, money), ids)
    bare = keep_protected(context, quotes.snapshot())
    note_written(context, quotes.snapshot())
    _renew_notes(context, [*expired, *(order.id for order in orders)])
    return {"expired": len(expired), "open": len(orders), "unprotected": len(bare)}


def _by_market(
    context: SubmissionContext, orders: Sequence[Order], context_of: Callable[[str], SubmissionContext] | None
) -> list[tuple[SubmissionContext, list[str]]]:
    """Return the ids of orders by the context that they are sent and polled in, the earliest market time first."""
    found: dict[int, tuple[SubmissionContext, list[str]]] = {}
    for order in orders:
        own = context_of(order.run_id) if context_of is not None else context
        found.setdefault(id(own.market), (own, []))[1].append(order.id)
    return sorted(found.values(), key=lambda group: group[0].market.clock.now())


def _record(context: SubmissionContext, halted: halting.HaltRecord | None) -> None:
    if halted is not None:
        with context.store.session() as session:
            halting.record(session, context.settings, halted)


def _expire(context: SubmissionContext) -> list[str]:
    with context.store.session() as session:
        return approvals.expire(session, context.settings)


def _mark_equity(context: SubmissionContext, quotes: QuoteCache) -> None:
    """Losses are measured from this, and a day without an order has a high, too."""
    try:
        if not context.market.clock.is_open():
            return
    except MarketError:
        return
    snapshot, account = quotes.snapshot(), context.broker.name
    with context.store.session() as session:
        session.get_one(Account, account, with_for_update=True)
        reconciled = latest(session, account)
        if reconciled is None or not reconciled.agreed:
            return
        view = value(session, snapshot, account)
        equity_levels(session, view, snapshot.now, snapshot.previous_session, keep=True)


def _renew_notes(context: SubmissionContext, order_ids: Iterable[str]) -> None:
    with context.store.session() as session:
        decisions = dict.fromkeys(load_order(session, order_id).decision_id for order_id in order_ids)
        for decision_id in decisions:
            write_notes(session, context.settings, session.get_one(Decision, decision_id), context.market.clock.now())


def cancel_open(context: SubmissionContext, *, protective: bool = False) -> list[str]:
    """Cancel every sent order, protective ones only if asked; return the ids of orders that may still fill."""
    for order_id in _sent(context, protective):
        cancel(context, order_id)
    return _sent(context, protective)


def _sent(context: SubmissionContext, protective: bool) -> list[str]:
    with context.store.read() as session:
        orders = [row for row in open_orders(session, context.broker.name) if row.state != OrderState.APPROVED]
    return [row.id for row in orders if protective or row.protects is None]


def process_decision(
    store: Store,
    settings: Settings,
    market: MarketData,
    broker: Broker,
    decision_id: str,
    lease: FencingLease | None = None,
) -> list[str]:
    context = SubmissionContext(
        store, settings, market, broker, lease or FencingLease(store, broker.name, f"decision {decision_id}")
    )
    if settings.trader_live:
        context.lease.acquire()  # a process that is fenced off leaves the orders alone: its positions are outdated
        meet_sessions(context)
    with store.session() as session:
        decision = load_decision(session, decision_id)
        ensure_account(session, decision.account, settings.starting_cash, settings.currency)
        ids = _draft(session, settings, market, decision)
    with store.read() as session:
        moving = [order for order in (load_order(session, id_) for id_ in ids) if order.state not in ORDER_FINAL]
        symbols = frozenset(symbols_of(session, moving, decision.account))
        money = account_money(session, settings, decision.account)
    if moving:
        quotes = QuoteCache(market, symbols, money)
        for order_id in ids:
            _preview(context, quotes.snapshot(), order_id)
        if settings.trader_live:
            for order_id in ids:
                _approve(context, order_id)
            submit_or_poll(context, quotes, ids)
    if settings.trader_live:
        keep_protected(context)
    with store.session() as session:
        write_notes(session, settings, decision, market.clock.now())
    return ids


def _draft(session: Session, settings: Settings, market: MarketData, decision: Decision) -> list[str]:
    first = claim_decision(session, decision)
    before = set(session.exec(select(Order.id).where(col(Order.decision_id) == decision.id)).all())
    ids = draft_orders(session, settings, decision, market.clock.now())
    if first:
        audit.record(session, settings, "decision", **decision_facts(session, decision))
    for order_id in ids:
        if order_id not in before:
            order = load_order(session, order_id)
            audit.record(session, settings, "drafted", order=order.id, **_order_facts(order))
            if order.state == OrderState.DENIED:
                audit.record(session, settings, "denied", order=order.id, **_denial_facts(order))
    return ids


def _order_facts(order: Order) -> dict[str, object]:
    names = ("run_id", "decision_id", "ordinal", "account", "symbol", "contract", "action", "side", "quantity")
    terms = ("notional", "order_type", "limit_price", "stop_price", "trail_percent", "time_in_force")
    facts: dict[str, object] = {name: getattr(order, name) for name in (*names, *terms)}
    more = {"legs": order.legs, "plan": order.plan, "exit_reason": order.exit_reason}
    return {**facts, **{name: value for name, value in more.items() if value}}


def _denial_facts(order: Order) -> dict[str, object]:
    stated = {"reason": order.denial_reason, "measured": order.measured, "limit": order.limit_text}
    return {"code": order.denial_code, **stated}


def _preview(context: SubmissionContext, snapshot: Snapshot, order_id: str) -> None:
    """Check a drafted order, and preview it if it is cleared."""
    settings, market, broker = context.settings, context.market.name, context.broker.name
    with context.store.read() as session:
        drafted = load_order(session, order_id)
    if drafted.state != OrderState.DRAFTED:
        return
    snapshot = with_facts(snapshot, context.store, settings, context.market, drafted)
    with context.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.DRAFTED:
            return
        differs = settings_denial(session, settings, order)
        found = differs or evaluate(session, order, snapshot, settings, market, broker)
        if isinstance(found, Denied):
            deny_and_record(session, settings, order, found)
            return
        terms = terms_of(session, settings, market, broker, snapshot.terms_of(order.symbol))
        note = _note(order, found, snapshot.terms_of(order.symbol).lot)
        write_preview(session, settings, order, found, snapshot.now, terms, note)


def _note(order: Order, sized: SizedOrder, lot: Decimal) -> str | None:
    notes = [sized.note] if sized.note else []
    if sized.unpriced is not None:
        notes.append(f"no price is known ({sized.unpriced}); at its average cost until a person decides")
    if order.quantity is not None and exact(order.quantity) != exact(sized.ticket.quantity):
        lots = "whole shares" if lot == 1 or order.contract else f"lots of {plain(lot)}"
        notes.append(f"{plain(order.quantity)} shares requested; {lots} are traded: {plain(sized.ticket.quantity)}")
    return "; ".join(notes) or None


def _approve(context: SubmissionContext, order_id: str) -> None:
    """Approve a previewed order by the policy, or let it wait for a person; one that is held stays previewed."""
    settings = context.settings
    with context.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.PREVIEWED:
            return
        if (held := mandates.hold_of(session, settings, order)) is not None:
            order.message = "; ".join(dict.fromkeys(filter(None, (order.message, held))))
            session.add(order)
            return
        found = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
        rogue = rogue_calls.note(rogue_calls.of_order(session, order))
        if rogue is not None or waits_for_person(settings, context.broker.real_money, found):
            approvals.request_approval(session, settings, order, found, rogue)
            return
        advance(session, order, OrderState.APPROVED)
        facts = {"payload_hash": found.payload_hash, "policy": settings.approval or approvals.AUTO}
        audit.record(session, settings, "approved", order=order.id, **facts)


OWNER = "backtest"


def simulated_context(store: Store, settings: Settings, market: MarketData) -> SubmissionContext:
    """Return the context of a backtest's orders on one day. settings: those of its run.

    Each call is its own submitter: the step that holds the day's work is the only one, and an older one that was
    thought dead is fenced off. Raises OrderError for an account that is not a backtest's, another broker than paper or
    a market of real time: past days may reach no broker that is not simulated.
    """
    if not is_backtest(settings.account):
        raise OrderError(f"the account {settings.account} is not a backtest's", remedy="a backtest opens one")
    if settings.broker != PAPER or market.clock.day is None:
        here = f"broker {settings.broker}, market {market.name}"
        raise OrderError(f"a backtest fills on paper and on past days alone; this is {here}", remedy="play it as one")
    from chordesk.tools.brokers.paper import PaperBroker  # one broker of several

    broker = PaperBroker(store, market, settings, settings.account)
    return SubmissionContext(store, settings, market, broker, FencingLease(store, settings.account, OWNER))
