"""Orders: their list, and one with all that belongs to it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen
from chordesk.models.database.lookup import by_prefix
from chordesk.models.database.store import Store
from chordesk.models.errors import NothingYet
from chordesk.models.money import DOLLAR
from chordesk.models.orders import DenialCode, Denied, MandateTerms, OrderTicket
from chordesk.models.settings import REAL_MONEY, Settings
from chordesk.models.states import ORDER_OPEN, OrderState, TradingState
from chordesk.models.tables.columns import Row, utcnow
from chordesk.models.tables.orders import Approval, AuditAnchor, Fill, Order, Preview
from chordesk.models.tables.runs import Decision, Run
from chordesk.tasks.reading.chain import Chain, chain, protecting
from chordesk.tasks.reading.report_view import OrderCase, order_case
from chordesk.tasks.reading.run_list import on_day
from chordesk.tools import rogue_calls
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import account_money, currency_of_account
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import checking, halting
from chordesk.tools.orders.accounts import account_names
from chordesk.tools.orders.audit import AuditEntry
from chordesk.tools.orders.audit_reading import CheckedChain
from chordesk.tools.orders.checking import Assessment, RecordedChecks, RuleAnswer, assess, settings_denial
from chordesk.tools.orders.mandates import in_force, usage_of
from chordesk.tools.orders.previews import price_moved, terms_of, verify
from chordesk.tools.orders.snapshots import Snapshot, symbols_of, take_snapshot, with_facts
from chordesk.tools.risk.codes import meaning, meanings, variable_name
from chordesk.tools.risk.conduct import halted
from chordesk.tools.risk.exposure import book_exposures, converted, exposures, price_of
from chordesk.tools.risk.pre_trade import RULES, Measured, measured
from chordesk.tools.rogue_calls import RogueRow

WAITS = frozenset({OrderState.DRAFTED, OrderState.PREVIEWED, OrderState.APPROVAL_PENDING, OrderState.APPROVED})
ENTRIES = frozenset({"open", "add"})
Answer = Literal["passed", "denied", "not_bound", "passed_then", "not_recorded", "not_reached", "not_checked"]


class CheckRow(Frozen):
    """One rule. denies: what it refuses; limits: its settings, with the values of the order's run.

    answer: `passed` or `denied`; `not_bound`: the order only reduces; `passed_then`: it passed without recorded
    figures; `not_recorded`: another check denied the order, and only that was recorded; `not_reached`: the order has no
    price or size; `not_checked`: the desk sends such orders without the rules. figure and the limit that it broke: text
    with units, or None.
    """

    codes: list[DenialCode]
    denied_as: DenialCode | None
    denies: list[str]
    limits: dict[str, Any]
    answer: Answer
    figure: str | None
    limit: str | None
    reason: str | None


class PreviewChanges(Frozen):
    """Differences between now and the order's preview. price_now: the last price; moved: its distance from the
    previewed price as a fraction, at most `collar`; None without a price.

    seconds_left: of real time to answer, None if no person is asked. intact: order, preview and hash agree.
    mandate_then and mandate_now: versions. denied: the denial if it were sent now.
    """

    price_then: float
    priced_at: dt.datetime
    price_now: float | None
    price_now_at: dt.datetime | None
    moved: float | None
    collar: float
    previewed_at: dt.datetime
    seconds_left: float | None
    intact: bool
    mandate_then: int | None
    mandate_now: int | None
    denied: Denied | None


class OrderEffect(Frozen):
    """The account before and after an order at the last prices, if it fills whole and nothing else does. Shares are of
    equity, None where a price is missing; sector: None where it is not known, then its shares are of the symbol alone.

    others: orders of the account that wait or work. The `_all` are after these too, as far as they open anything: what
    sells is not counted on. stop_distance: from the price of now, as a fraction; at_risk: what is lost of the order if
    it fills now and its plan's stop at its own price, in account currency; at_risk_share: of equity. None without a
    stop, and for a contract, whose plan has prices of the share.
    """

    symbol: str
    sector: str | None
    share_before: float | None
    share_after: float | None
    sector_before: float | None
    sector_after: float | None
    cash_before: float
    cash_after: float
    others: int
    share_all: float | None
    sector_all: float | None
    cash_all: float
    stop_distance: float | None
    at_risk: float | None
    at_risk_share: float | None
    currency: str = DOLLAR  # of the account


class OrderChecks(Frozen):
    """The checks of an order: as they are now while it is not sent, then as they were when it was last checked. at:
    market time of the figures, None where none were recorded. denial: the reason for which it was denied, by whatever
    check; changes: of an order that is not sent yet and was previewed; effect: of one that is not sent yet and has a
    price; case: of one that rests on a verdict."""

    order: str
    state: OrderState
    at: dt.datetime | None
    checks: list[CheckRow]
    denial: Denied | None
    changes: PreviewChanges | None
    effect: OrderEffect | None = None
    case: OrderCase | None = None
    missing: str | None


def checks_now(store: Store, settings: Settings, id_: str, market_of: Callable[[str], MarketData]) -> OrderChecks:
    """Return an order's checks at the prices of now. id_: of an order, or its beginning; market_of: by the order's
    run."""
    with store.read() as session:
        found = by_prefix(session, Order, id_)
        symbols = symbols_of(session, [found], found.account)
        money = account_money(session, settings, found.account)
    ask = found.account == settings.account and found.state in WAITS
    market = market_of(found.run_id) if ask else None
    snapshot = None
    if market is not None:
        snapshot = with_facts(take_snapshot(market, symbols, money), store, settings, market, found)
    with store.read() as session:
        order = by_prefix(session, Order, found.id)
        return order_checks(session, settings, order, snapshot, market.name if market else "")


def order_checks(
    session: Session, settings: Settings, order: Order, snapshot: Snapshot | None, market: str
) -> OrderChecks:
    """Return an order's checks; those of one that is not sent yet are made now, and change nothing. snapshot: None
    where this process does not have the order's account, or need not ask. market: the name of the snapshot's."""
    kept = _kept_denial(order)
    if OrderState(order.state) not in WAITS or snapshot is None:
        missing = None if OrderState(order.state) not in WAITS else "the order's account is another service's"
        then = checking.kept(session, order.id)
        return OrderChecks(
            order=order.id, state=OrderState(order.state), at=then.at if then else None,
            checks=_past(session, order, kept, then), denial=kept, changes=None, missing=missing,
            case=order_case(session, order),
        )  # fmt: skip
    found = assess(session, order, snapshot, settings, market, settings.account, dry=True)
    rows = _early(session, order, found) if isinstance(found, Denied) else _present(session, order, found)
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    changes = _changes(session, settings, order, preview, snapshot, market, found, rows) if preview else None
    return OrderChecks(
        order=order.id, state=OrderState(order.state), at=snapshot.now, checks=rows, denial=kept, changes=changes,
        effect=None if isinstance(found, Denied) else order_effect(session, order, found),
        case=order_case(session, order), missing=None,
    )  # fmt: skip


def order_effect(session: Session, order: Order, found: Assessment) -> OrderEffect:
    ticket, stop = found.ticket, (order.plan or {}).get("stop")
    own = (Order.account == order.account, col(Order.id) != order.id, col(Order.protects).is_(None))
    others = session.exec(select(func.count()).where(*own, col(Order.state).in_(ORDER_OPEN))).one()
    whole = found.context.model_copy(update={"stated_notional": None})
    context = whole.model_copy(update={"reservations": ()})
    before, after = book_exposures(context.account.positions, ()), exposures(ticket, context)
    sector = context.sectors.get(ticket.symbol)
    equity = exact(context.account.equity or 0)

    def shares(amounts: Mapping[str, Decimal] | None) -> tuple[float | None, float | None]:
        if amounts is None or equity <= 0:
            return None, None
        alike = [name for name in amounts if name == ticket.symbol or (sector and context.sectors.get(name) == sector)]
        own, whole = amounts.get(ticket.symbol, Decimal(0)), sum((amounts[name] for name in alike), Decimal(0))
        return float(own / equity), float(whole / equity)

    per_unit = price_of(ticket, context) * exact(ticket.multiplier)
    paid = converted(exact(ticket.quantity) * per_unit, context.fx) * (1 if ticket.side == "buy" else -1)
    (share_before, sector_before), (share_after, sector_after) = shares(before), shares(after)
    share_all, sector_all = shares(exposures(ticket, whole))
    reserved = sum((exact(one.cash) for one in whole.reservations), Decimal(0))
    lost = stop_loss(ticket, price_of(ticket, context), stop)
    risk = converted(exact(ticket.quantity) * lost, context.fx) if lost is not None else None
    return OrderEffect(
        symbol=ticket.symbol, sector=sector, share_before=share_before, share_after=share_after,
        sector_before=sector_before, sector_after=sector_after, cash_before=context.account.cash,
        cash_after=float(exact(context.account.cash) - paid), currency=context.account.currency,
        others=others, share_all=share_all, sector_all=sector_all,
        cash_all=float(exact(context.account.cash) - paid - reserved),
        stop_distance=float(lost / price_of(ticket, context)) if lost is not None else None,
        at_risk=float(risk) if risk is not None else None,
        at_risk_share=float(risk / equity) if risk is not None and equity > 0 else None,
    )  # fmt: skip


def stop_loss(ticket: OrderTicket, price: Decimal, stop: float | None) -> Decimal | None:
    """Return what a share loses from this price to its plan's stop: price - stop of a purchase, stop - price of a short
    sale; 0 where the price is beyond the stop. None without a stop, for what closes, and for contracts."""
    if stop is None or price <= 0 or ticket.traded != ticket.symbol or ticket.action not in ENTRIES:
        return None
    return max((price - exact(stop)) * (1 if ticket.side == "buy" else -1), Decimal(0))


def _kept_denial(order: Order) -> Denied | None:
    if order.denial_code is None:
        return None
    return Denied(
        code=DenialCode(order.denial_code), reason=order.denial_reason or "", measured=order.measured or "",
        limit=order.limit_text or "",
    )  # fmt: skip


def _row(
    kept: dict[str, Any],
    codes: Sequence[DenialCode],
    answer: Answer,
    figure: str | None = None,
    denied: Denied | None = None,
) -> CheckRow:
    names = dict.fromkeys(name for code in codes for name in meaning(code).settings)
    return CheckRow(
        codes=list(codes),
        denied_as=denied.code if denied else None,
        denies=[meaning(code).denies for code in codes],
        limits={variable_name(name): kept.get(name) for name in names},
        answer=answer,
        figure=denied.measured if denied else figure,
        limit=denied.limit if denied else None,
        reason=denied.reason if denied else None,
    )


def _settings_of(session: Session, order: Order) -> dict[str, Any]:
    return session.get_one(Run, order.run_id).settings or {}


def _denied_row(kept: dict[str, Any], codes: Sequence[DenialCode], denied: Denied) -> CheckRow:
    return _row(kept, codes, "denied", denied=denied)


def _present(session: Session, order: Order, found: Assessment) -> list[CheckRow]:
    kept = _settings_of(session, order)
    return [_answer_row(kept, one) for one in measured(found.ticket, found.context, found.limits)]


def _answer_row(kept: dict[str, Any], one: Measured | RuleAnswer) -> CheckRow:
    if one.denied is not None:
        return _denied_row(kept, one.codes, one.denied)
    return _row(kept, one.codes, "passed" if one.binds else "not_bound", figure=one.figure)


def _early(session: Session, order: Order, denied: Denied) -> list[CheckRow]:
    return [_denied_row(_settings_of(session, order), [denied.code], denied)]


def _past(session: Session, order: Order, denied: Denied | None, then: RecordedChecks | None) -> list[CheckRow]:
    kept = _settings_of(session, order)
    rows = [_answer_row(kept, one) for one in then.answers] if then is not None else []
    if denied is not None and denied.code not in {row.denied_as for row in rows}:
        # Denied by a check outside these rules, or before answers were recorded.
        codes = next((codes for codes in RULES.values() if denied.code in codes), (denied.code,))
        rows = [_denied_row(kept, codes, denied), *(row for row in rows if denied.code not in row.codes)]
    if then is not None and then.answers:
        return rows
    if denied is not None:
        others = [codes for codes in RULES.values() if denied.code not in codes]
        unknown: Answer = "not_reached" if then is not None else "not_recorded"
        return [*rows, *(_row(kept, one, unknown) for one in others)]
    answer: Answer = "passed_then" if _was_checked(session, order) else "not_checked"
    return [_row(kept, codes, answer) for codes in RULES.values()]


def _was_checked(session: Session, order: Order) -> bool:
    decision = session.get_one(Decision, order.decision_id)
    by_person = decision.turn_id is None and not decision.author.startswith("code:")
    return order.protects is None and not by_person


def _changes(
    session: Session,
    settings: Settings,
    order: Order,
    preview: Preview,
    snapshot: Snapshot,
    market: str,
    found: Assessment | Denied,
    rows: Sequence[CheckRow],
) -> PreviewChanges:
    price = None if isinstance(found, Denied) or found.unpriced is not None else found.price
    terms = terms_of(session, settings, market, settings.account, snapshot.terms_of(order.symbol))
    altered = verify(order, preview, terms, snapshot.now)
    approval = session.exec(select(Approval).where(col(Approval.order_id) == order.id)).first()
    waits = approval is not None and order.state == OrderState.APPROVAL_PENDING
    moved = abs(exact(price) - exact(preview.price)) / exact(preview.price) if price and preview.price else None
    return PreviewChanges(
        price_then=preview.price,
        priced_at=preview.priced_at,
        price_now=price,
        price_now_at=None if isinstance(found, Denied) or price is None else found.priced_at,
        moved=None if moved is None else float(moved),
        collar=settings.max_price_collar,
        previewed_at=preview.created_at,
        seconds_left=(approval.expires_at - utcnow()).total_seconds() if approval and waits else None,
        intact=altered is None or altered.code is not DenialCode.PREVIEW_ALTERED,
        mandate_then=json.loads(preview.payload).get("mandateVersion"),
        mandate_now=terms.mandate,
        denied=_would_deny(session, settings, order, preview, altered, found, rows),
    )


def _would_deny(
    session: Session,
    settings: Settings,
    order: Order,
    preview: Preview,
    altered: Denied | None,
    found: Assessment | Denied,
    rows: Sequence[CheckRow],
) -> Denied | None:
    """Return the denial that the order would get if it were sent now, in the order of the checks at submission."""
    state, why = halting.trading_state(session, settings, order.account)
    if state is TradingState.HALTED:
        return halted(state, why, order.account)
    mandate = in_force(session, settings, settings.account) if settings.real_money else None
    denied = settings_denial(session, settings, order) or (mandate if isinstance(mandate, Denied) else None) or altered
    if denied is not None or isinstance(found, Denied):
        return denied or (found if isinstance(found, Denied) else None)
    first = next((row for row in rows if row.answer == "denied"), None)
    if first is not None and first.denied_as is not None:
        stated = {"reason": first.reason or "", "measured": first.figure or "", "limit": first.limit or ""}
        return Denied(code=first.denied_as, **stated)
    return price_moved(preview, found.price, settings.max_price_collar)


class LimitRow(Frozen):
    """One denial code. limits: variables with the values in force; exits: it binds orders that only reduce, too."""

    code: DenialCode
    denies: str
    exits: bool
    limits: dict[str, str]


class MandateState(Frozen):
    """The mandate of a broker with real money: its terms and use, or why none is in force. currency: of its
    account, and of its amounts."""

    broker: str
    currency: str = DOLLAR
    in_force: bool
    why: str | None
    terms: dict[str, Any] | None
    used_orders: int | None
    used_notional: Decimal | None


class LimitsView(Frozen):
    limits: list[LimitRow]
    approval: str | None
    mandates: list[MandateState]


def limits_view(session: Session, settings: Settings) -> LimitsView:
    rows = [
        LimitRow(code=code, denies=one.denies, exits=one.exits, limits=dict(one.limits(settings)))
        for code, one in meanings().items()
    ]
    return LimitsView(limits=rows, approval=settings.approval, mandates=mandate_states(session, settings))


def mandate_states(session: Session, settings: Settings) -> list[MandateState]:
    return [_mandate(session, settings, broker) for broker in sorted(REAL_MONEY)]


def _mandate(session: Session, settings: Settings, broker: str) -> MandateState:
    found = in_force(session, settings, broker)
    if not isinstance(found, MandateTerms):
        return MandateState(
            broker=broker, in_force=False, why=found.reason, terms=None, used_orders=None, used_notional=None
        )
    used = usage_of(session, broker, found.version)
    return MandateState(
        broker=broker, in_force=True, why=None, terms=found.model_dump(mode="json"), used_orders=used.orders,
        used_notional=used.notional, currency=currency_of_account(session, broker),
    )  # fmt: skip


MOST_PROBLEMS = 20


class ChainState(Frozen):
    """One chain. verified: its file agrees with its anchor, line by line; entries: lines that are anchored; head: hash
    of the last one, at: its time; problems: the first of all_problems; abandoned: lines struck out, beyond: lines that
    are not committed or just being written. before: how many of the first lines were read at an earlier check alone, at
    before_at; `desk audit verify` reads them again."""

    chain: str
    place: str
    file_found: bool
    verified: bool
    entries: int
    head: str | None
    at: dt.datetime | None
    problems: list[str]
    all_problems: int
    abandoned: int
    beyond: int
    before: int
    before_at: dt.datetime | None


class AuditState(Frozen):
    """All chains that the database or the data folder knows. verified: each of them is; True without any, as nothing is
    on record then."""

    verified: bool
    chains: list[ChainState]


def audit_state(session: Session, checked: list[CheckedChain]) -> AuditState:
    anchors = {row.chain: row for row in session.exec(select(AuditAnchor).order_by(col(AuditAnchor.at))).all()}
    return AuditState(
        verified=all(one.whole for one in checked), chains=[_chain(one, anchors.get(one.chain)) for one in checked]
    )


def _chain(one: CheckedChain, anchor: AuditAnchor | None) -> ChainState:
    return ChainState(
        chain=one.chain,
        place=one.place,
        file_found=one.file is not None,
        verified=one.whole,
        entries=one.count,
        head=anchor.head if anchor else None,
        at=anchor.at if anchor else None,
        problems=one.reading.problems[:MOST_PROBLEMS],
        all_problems=len(one.reading.problems),
        abandoned=one.reading.abandoned,
        beyond=one.reading.beyond,
        before=one.since,
        before_at=one.since_at,
    )


class OrderParts(Frozen):
    """An order with what came of it. currency: of the account, and of prices that state no other; protected_by: the
    orders that protect its position."""

    currency: str = DOLLAR
    order: Row[Order]
    preview: Row[Preview] | None
    approval: Row[Approval] | None
    protected_by: list[Row[Order]]
    fills: list[Row[Fill]]


class OrderDetail(OrderParts):
    """The same, with the chain that leads to it. rogue: rogue calls of what it rests on; log: its lines in the audit
    log, if they were requested."""

    chain: Chain
    rogue: list[RogueRow]
    log: list[AuditEntry] | None = None


def newest_order(session: Session, own: str) -> Order:
    """Return the newest order of the accounts that are not of backtests. own: the desk's account."""
    found = next((order for order, _ in list_orders(session, None, None, None, 1, but_backtests=own)), None)
    if found is None:
        raise NothingYet(
            "no account of the desk has an order yet", remedy="every trading action of a decision makes one"
        )
    return found


def list_orders(
    session: Session,
    run_id: str | None,
    symbol: str | None,
    state: str | None,
    limit: int,
    *,
    offset: int = 0,
    account: str | None = None,
    day: dt.date | None = None,
    but_backtests: str | None = None,
) -> Sequence[tuple[Order, Preview | None]]:
    """The newest first. day: of the exchange, in market time. but_backtests: the desk's account, to leave out orders on
    accounts of backtests; None for those too."""
    filters = ((Order.run_id, run_id), (Order.symbol, symbol), (Order.state, state), (Order.account, account))
    query = select(Order, Preview).join(Preview, col(Preview.order_id) == col(Order.id), isouter=True)
    query = query.where(*(col(column) == wanted for column, wanted in filters if wanted is not None))
    if day is not None:
        query = query.where(on_day(Order.market_at, day))
    if but_backtests is not None:
        # By name, so that an index finds them: a backtest may have made a hundred thousand orders since.
        query = query.where(col(Order.account).in_(account_names(session, but_backtests)))
    ordered = query.order_by(col(Order.created_at).desc(), col(Order.ordinal).desc())
    found = session.exec(ordered.offset(offset).limit(limit)).all()
    return [(order, preview) for order, preview in found]


def order_parts(session: Session, order: Order) -> OrderParts:
    return OrderParts(
        currency=currency_of_account(session, order.account),
        order=order,
        preview=session.exec(select(Preview).where(Preview.order_id == order.id)).first(),
        approval=session.exec(select(Approval).where(Approval.order_id == order.id)).first(),
        protected_by=list(protecting(session, order)),
        fills=list(
            session.exec(
                select(Fill).where(Fill.order_id == order.id).order_by(col(Fill.filled_at), col(Fill.id))
            ).all()
        ),
    )


def order_detail(session: Session, order: Order) -> OrderDetail:
    found = chain(session, session.get_one(Run, order.run_id), order.symbol, order.id)
    return OrderDetail(**dict(order_parts(session, order)), chain=found, rogue=rogue_calls.of_order(session, order))
