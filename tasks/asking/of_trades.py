"""What was ordered and traded, what it cost at the broker, and what was gained on a symbol."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import func, or_
from sqlmodel import Session, col, select

from chordesk.models.exchanges import at_listing
from chordesk.models.states import ORDER_OPEN, OrderState
from chordesk.models.tables.orders import Approval, BookedSettlement, Fill, Order
from chordesk.tasks.asking.answers import MOST, Answer, Answering, Desk, amount, listed, order_source
from chordesk.tasks.asking.of_runs import found_order
from chordesk.tasks.asking.questions import Question
from chordesk.tasks.reading.accounts import AccountDetail
from chordesk.tasks.reading.chain import order_label
from chordesk.tools.books import costs_of, worth_of_fill
from chordesk.tools.decimals import exact, plain
from chordesk.tools.risk.exposure import underlying_of

_OPEN = tuple(OrderState(one) for one in ORDER_OPEN)
_STATES: Mapping[str, tuple[OrderState, ...]] = {
    **dict.fromkeys(("denied", "refused", "denials", "denial", "blocked"), (OrderState.DENIED,)),
    "rejected": (OrderState.REJECTED,), "filled": (OrderState.FILLED,), "unknown": (OrderState.UNKNOWN,),
    **dict.fromkeys(("open", "working", "outstanding"), _OPEN), "submitted": (OrderState.SUBMITTED,),
    **dict.fromkeys(("cancelled", "canceled"), (OrderState.CANCELLED,)), "expired": (OrderState.EXPIRED,),
    "previewed": (OrderState.PREVIEWED,), "approved": (OrderState.APPROVED,),
    **dict.fromkeys(("failed", "fail"), (OrderState.DENIED, OrderState.REJECTED, OrderState.UNKNOWN)),
}  # fmt: skip
_SIDES = (
    ("buy", ("buy", "bought", "buys", "purchases", "purchase")),
    ("sell", ("sell", "sold", "sells", "sales", "sale")),
)


def orders(desk: Desk, question: Question) -> Answer:
    """Return orders by symbol, state, side and moment; or the one whose id is given, with who answered it."""
    if question.ids:
        return _one_order(desk, question)
    wanted = [Order.account == desk.account, *desk.told(Order), *desk.within(question, col(Order.created_at))]
    wanted += [col(Order.symbol).in_(question.symbols)] if question.symbols else []
    wanted += _sided(question, Order.side) + _in_state(question)
    most = question.count or MOST
    with desk.store.read() as session:
        counts = dict(session.execute(select(Order.state, func.count()).where(*wanted).group_by(Order.state)).all())
        newest = (col(Order.created_at).desc(), col(Order.ordinal).desc())
        rows = session.exec(select(Order).where(*wanted).order_by(*newest).limit(most)).all()
        answered = _answered(session, rows)
    whole = sum(counts.values())
    by_state = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(counts.items()))
    head = f"{whole} order{'' if whole == 1 else 's'}{desk.span(question)}{f': {by_state}' if by_state else ''}"
    lines = [
        head,
        *(f"{at_listing(one.market_at, one.symbol)}: {_ordered(one)}{answered.get(one.id, '')}" for one in rows),
    ]
    return Answer(
        question=question.text, intent="orders", text=listed(lines, whole - len(rows)),
        facts={"orders": whole, "states": counts, "rows": [_facts_of(one) for one in rows]},
        sources=[order_source(one.id) for one in rows],
    )  # fmt: skip


def _in_state(question: Question) -> list[Any]:
    """Return the condition of the states that are named; of their opposite after "not"."""
    if question.says("unfilled"):
        return [col(Order.state) != OrderState.FILLED]
    if question.says("approved"):  # what a person approved may be filled since
        return [col(Order.id).in_(select(Approval.order_id).where(Approval.state == "approved"))]
    states = {state for word, states in _STATES.items() if question.says(word) for state in states}
    if not states:
        return []
    negated = question.says("not", "never", "without") or bool(
        question.words & {"weren't", "wasn't", "didn't", "aren't"}
    )
    return [col(Order.state).not_in(states) if negated else col(Order.state).in_(states)]


def _sided(question: Question, column: Any) -> list[Any]:
    sides = [side for side, said in _SIDES if question.says(*said)]
    return [column.in_(sides)] if len(sides) == 1 else []


def _answered(session: Session, rows: Sequence[Order]) -> dict[str, str]:
    """Return by order which person answered it."""
    found = session.exec(select(Approval).where(col(Approval.order_id).in_([one.id for one in rows]))).all()
    return {one.order_id: f", {one.state} by {one.decided_by}" for one in found if one.decided_by}


def _one_order(desk: Desk, question: Question) -> Answer:
    with desk.store.read() as session:
        one = found_order(session, desk, question.ids[0])
        answered = _answered(session, [one]).get(one.id, "")
        fills = session.exec(select(Fill).where(Fill.order_id == one.id).order_by(col(Fill.created_at))).all()
    lines = [f"{at_listing(one.market_at, one.symbol)}: {_ordered(one)}{answered}"]
    if one.denial_code and (one.measured or one.limit_text):
        lines.append(f"measured {one.measured or '-'}, limit {one.limit_text or '-'}")
    lines += [f"{at_listing(fill.filled_at, fill.symbol)}: {_filled(fill)}" for fill in fills]
    return Answer(
        question=question.text, intent="orders", text="\n".join(lines),
        facts={"orders": 1, "rows": [_facts_of(one)], "fills": [_facts_of_fill(fill) for fill in fills]},
        sources=[order_source(one.id)],
    )  # fmt: skip


_ORDER = {"symbol", "side", "quantity", "state", "denial_code", "denial_reason", "market_at"}


def _facts_of(one: Order) -> dict[str, Any]:
    return one.model_dump(mode="json", include=_ORDER)


def _ordered(one: Order) -> str:
    return order_label(one).replace(": denied, denied: ", ": denied, ")


_FILL = {"symbol", "side", "quantity", "price", "filled_at"}


def _facts_of_fill(one: Fill) -> dict[str, Any]:
    return one.model_dump(mode="json", include=_FILL)


def _fills(desk: Desk, question: Question) -> list[Any]:
    """Return the conditions of a question's fills, those of options on its symbols included."""
    wanted = [Fill.account == desk.account, *desk.told(Fill), *_sided(question, Fill.side)]
    wanted += desk.within(question, col(Fill.created_at))
    if question.symbols:
        ordered = select(Order.id).where(Order.account == desk.account, col(Order.symbol).in_(question.symbols))
        wanted.append(or_(col(Fill.symbol).in_(question.symbols), col(Fill.order_id).in_(ordered)))
    return wanted


def fills(desk: Desk, question: Question) -> Answer:
    wanted, most = _fills(desk, question), question.count or MOST
    with desk.store.read() as session:
        newest = (col(Fill.created_at).desc(), col(Fill.id).desc())
        rows = session.exec(select(Fill).where(*wanted).order_by(*newest).limit(most)).all()
        whole = session.exec(select(func.count()).select_from(Fill).where(*wanted)).one()
    head = f"{whole} fill{'' if whole == 1 else 's'}{desk.span(question)}"
    lines = [head, *(f"{at_listing(one.filled_at, one.symbol)}: {_filled(one)}" for one in rows)]
    facts: dict[str, Any] = {"fills": whole, "rows": [_facts_of_fill(one) for one in rows]}
    if whole and question.says("total", "sum", "altogether", "many", "much"):
        sums, facts["sums"] = _sums(desk, wanted)
        lines[0] = f"{head}: {sums}"
    return Answer(
        question=question.text, intent="fills", text=listed(lines, whole - len(rows)), facts=facts,
        sources=[order_source(one.order_id) for one in rows],
    )  # fmt: skip


def _filled(one: Fill) -> str:
    did = "bought" if one.side == "buy" else "sold"
    return f"{did} {plain(one.quantity)} {one.symbol} at {plain(one.price)}{f' {one.currency}' if one.currency else ''}"


def _sums(desk: Desk, wanted: Sequence[Any]) -> tuple[str, dict[str, dict[str, float]]]:
    """Return how much all fills bought and sold: quantities as they are counted at the broker, and their worth."""
    with desk.store.read() as session:
        rows = session.exec(select(Fill).where(*wanted)).all()
    told, facts = [], dict[str, dict[str, float]]()
    for side, word in (("buy", "bought"), ("sell", "sold")):
        own = [one for one in rows if one.side == side]
        quantity = sum((exact(one.quantity) for one in own), Decimal(0))
        worth = float(sum(map(worth_of_fill, own), Decimal(0)))
        facts[word] = {"quantity": float(quantity), "worth": worth}
        if own:
            told.append(f"{word} {plain(float(quantity))} in all for {amount(worth, desk.settings.currency)}")
    return ", ".join(told), facts


def fees(desk: Desk, question: Question) -> Answer:
    """Return what the broker took: commission and duties of fills."""
    with desk.store.read() as session:
        rows = session.exec(select(Fill).where(*_fills(desk, question))).all()
    paid, duties = sum((exact(one.commission) for one in rows), Decimal(0)), sum(map(costs_of, rows), Decimal(0))
    facts = {"fills": len(rows), "commission": float(paid), "duties": float(duties - paid)}
    text = f"commission {amount(float(paid), desk.settings.currency)}"
    text += f", duties {amount(float(duties - paid), desk.settings.currency)}" if duties != paid else ""
    text += f" of {len(rows)} fill{'' if len(rows) == 1 else 's'}{desk.span(question)}"
    return Answer(question=question.text, intent="fees", text=text, facts=facts)


def gain(desk: Desk, question: Question) -> Answer:
    """Return what was gained on symbols: by sales, and of what is held."""
    missing: list[str] = []
    seen = desk.detail(missing)
    since, until = desk.since(question), desk.until(question)
    with desk.store.read() as session:
        own = select(Fill).where(Fill.account == desk.account).order_by(col(Fill.created_at), col(Fill.id))
        rows = [one for one in session.exec(own).all() if underlying_of(one.symbol) in question.symbols]
        events = session.exec(select(BookedSettlement).where(BookedSettlement.account == desk.account)).all()
    lines, facts = [], dict[str, Any]()
    for symbol in question.symbols:
        own_rows = [one for one in rows if symbol in (one.symbol, underlying_of(one.symbol))]
        within = [
            one
            for one in own_rows
            if (since is None or one.created_at >= since) and (until is None or one.created_at < until)
        ]
        sold = realised(own_rows, {one.id for one in within})
        lines.append(_gained(desk, question, symbol, within, sold, seen))
        facts[symbol] = _facts_of_gain(symbol, within, sold, seen)
        if not own_rows:
            missing.append(f"a fill of {symbol}")
        if any(underlying_of(one.symbol) == symbol for one in events):
            missing.append(f"gains of expired and assigned options on {symbol}: they are not sales")
    sources = [order_source(one) for one in dict.fromkeys(one.order_id for one in reversed(rows))]
    return Answer(
        question=question.text,
        intent="gain",
        text="\n".join(lines),
        facts=facts,
        missing=missing,
        sources=sources[:MOST],
    )


def realised(rows: Iterable[Fill], counted: set[str]) -> Decimal:
    """Return what closing fills gained, of those whose id is counted, in the account's currency and before commission.

    A fill that closes q shares of a position of average cost c at the price p gains q (p - c), and of a position that
    is short q (c - p): with worth w = p |q| of the whole fill and its n shares, s q (w / n - c) where s is the sign of
    the position. One that goes beyond zero closes what was held and opens the rest at its own price.
    """
    held: dict[str, tuple[Decimal, Decimal]] = defaultdict(lambda: (Decimal(0), Decimal(0)))  # shares, cost of one
    total = Decimal(0)
    for one in rows:
        before, average = held[one.symbol]
        signed = exact(one.quantity) * (1 if one.side == "buy" else -1)
        if not signed:
            continue
        each = worth_of_fill(one) / abs(signed)
        after = before + signed
        if before * signed < 0:
            closed = min(abs(before), abs(signed))
            total += (closed * (each - average) * (1 if before > 0 else -1)) if one.id in counted else 0
            held[one.symbol] = after, (average if before * after > 0 else each)
        else:
            held[one.symbol] = after, ((before * average + signed * each) / after)
    return total


def _gained(
    desk: Desk, question: Question, symbol: str, rows: Sequence[Fill], sold: Decimal, seen: AccountDetail
) -> str:
    currency = desk.settings.currency
    sums = {side: sum((worth_of_fill(one) for one in rows if one.side == side), Decimal(0)) for side in ("buy", "sell")}
    parts = [
        f"{word} for {amount(float(sums[side]), currency)}"
        for side, word in (("buy", "bought"), ("sell", "sold"))
        if sums[side]
    ]
    head = f"{symbol}{desk.span(question)}: {', '.join(parts) or 'nothing bought or sold'}"
    if sums["sell"]:
        head += f", gain of sales {float(sold):+,.2f} {currency}"
    costs = sum(map(costs_of, rows), Decimal(0))
    head += f", commission and duties {amount(float(costs), currency)}" if rows else ""
    open_ = [one for one in seen.holdings if symbol in (one.symbol, one.underlying)]
    held = [
        f"held now: {plain(one.quantity)} {one.symbol} at {one.average_cost:,.4f}, "
        f"worth {amount(one.value, currency)}, gain {amount(one.gain, currency)}"
        for one in open_
    ]
    return "\n".join([head, *(held or [f"{desk.account} holds no {symbol} now"])])


def _facts_of_gain(symbol: str, rows: Sequence[Fill], sold: Decimal, seen: AccountDetail) -> dict[str, Any]:
    open_ = [one for one in seen.holdings if symbol in (one.symbol, one.underlying)]
    worth = {
        side: float(sum((worth_of_fill(one) for one in rows if one.side == side), Decimal(0)))
        for side in ("buy", "sell")
    }
    return {
        "bought": worth["buy"], "sold": worth["sell"], "realised": float(sold),
        "costs": float(sum(map(costs_of, rows), Decimal(0))),
        "open": [one.model_dump(include={"symbol", "quantity", "average_cost", "gain"}) for one in open_],
    }  # fmt: skip


ANSWERS: Mapping[str, Answering] = {"orders": orders, "fills": fills, "fees": fees, "gain": gain}
