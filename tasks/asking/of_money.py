"""What the account holds, is worth, ordered, traded and spent."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.exchanges import at_listing
from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.states import ORDER_OPEN, OrderState
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Run, Turn, Verdict
from chordesk.models.text import SHORT_ID
from chordesk.tasks.asking.answers import (
    MOST,
    Answer,
    Answering,
    Desk,
    amount,
    listed,
    order_source,
    run_source,
    share,
)
from chordesk.tasks.asking.questions import Question
from chordesk.tasks.engine.budgets import RULES, cost_of, use_of_day
from chordesk.tasks.reading.accounts import PositionValue, equity_curve
from chordesk.tasks.reading.chain import order_label
from chordesk.tools.decimals import plain

_RATINGS = ("PASS", "INSUFFICIENT", "CAUTION", "HOLD", "BUY")  # the weakest first
RULE = "weakest first by rating of the last verdict, then by gain, then by probability; what is not known comes last"


def holdings(desk: Desk, question: Question) -> Answer:
    missing: list[str] = []
    seen = desk.detail(missing)
    rows = seen.holdings
    if question.symbols:
        rows = [one for one in rows if one.underlying in question.symbols or one.symbol in question.symbols]
        if not rows:
            none = f"{desk.account} holds no {' and no '.join(question.symbols)}"
            return Answer(question=question.text, intent="holdings", text=none, facts={"holdings": []})
    lines = [_held(one, desk.settings.currency) for one in rows]
    head = f"{desk.account} holds {len(seen.holdings)} position{'' if len(seen.holdings) == 1 else 's'}"
    if not question.symbols:
        currency = desk.settings.currency
        head = f"{head}; cash {amount(seen.cash, currency)}, all {amount(seen.value, currency)}"
        lines.insert(0, head)
    facts = {
        "holdings": [_facts(one) for one in rows],
        "cash": seen.cash,
        "value": seen.value,
        "positions": seen.positions,
    }
    return Answer(
        question=question.text, intent="holdings", text=listed(lines[: 4 * MOST], len(lines) - 4 * MOST), facts=facts,
        missing=missing,
    )  # fmt: skip


def _held(one: PositionValue, currency: str) -> str:
    gained = f", gain {amount(one.gain, currency)} ({share(one.gain_share)})"
    worth = f"worth {amount(one.value, currency)}, {share(one.share)} of equity"
    cost = f"{one.average_cost:,.4f}".rstrip("0").rstrip(".")
    return f"{one.symbol}: {plain(one.quantity)} at {cost}{f' {one.currency}' if one.currency else ''}, {worth}{gained}"


def _facts(one: PositionValue) -> dict[str, Any]:
    names = ("symbol", "quantity", "average_cost", "value", "share", "gain", "gain_share", "currency")
    return {name: getattr(one, name) for name in names}


def weakest(desk: Desk, question: Question) -> Answer:
    return _ranked(desk, question, strongest=False)


def strongest(desk: Desk, question: Question) -> Answer:
    return _ranked(desk, question, strongest=True)


def _ranked(desk: Desk, question: Question, *, strongest: bool) -> Answer:
    missing: list[str] = []
    seen = desk.detail(missing)
    with desk.store.read() as session:
        verdicts = {one.underlying: last_verdict(session, desk.account, one.underlying) for one in seen.holdings}
    rows = [(one, verdicts[one.underlying]) for one in seen.holdings]
    rows.sort(key=lambda row: (_rank(row[1], strongest), *_figure(row[0].gain_share, strongest),
                               *_figure(_probability(row[1]), strongest), row[0].symbol))  # fmt: skip
    most = question.count or 3
    intent = "strongest" if strongest else "weakest"
    lines = [
        f"{at}. {_judged(one, verdict)}, gain {amount(one.gain, desk.settings.currency)} ({share(one.gain_share)})"
        for at, (one, verdict) in enumerate(rows[:most], 1)
    ]
    missing += [f"verdict on {one.symbol}" for one, verdict in rows if verdict is None]
    rule = RULE.replace("weakest", "strongest") if strongest else RULE
    lines = lines or [f"{desk.account} holds nothing"]
    facts = {
        "holdings": [
            {**_facts(one), "rating": verdict.rating if verdict else None, "probability": _probability(verdict)}
            for one, verdict in rows[:most]
        ]
    }
    return Answer(
        question=question.text, intent=intent, text="\n".join([*lines, f"({rule})"]), facts=facts, missing=missing,
        sources=[run_source(verdict.run_id) for _, verdict in rows[:most] if verdict is not None],
    )  # fmt: skip


def _rank(verdict: Verdict | None, strongest: bool) -> int:
    if verdict is None or verdict.rating not in _RATINGS:
        return len(_RATINGS)
    place = _RATINGS.index(verdict.rating)
    return len(_RATINGS) - 1 - place if strongest else place


def _figure(value: float | None, strongest: bool) -> tuple[bool, float]:
    return (value is None, (-value if strongest else value) if value is not None else 0.0)


def _probability(verdict: Verdict | None) -> float | None:
    found = (verdict.pooled or {}).get("probability") if verdict is not None else None
    return float(found) if found is not None else None


def _judged(one: PositionValue, verdict: Verdict | None) -> str:
    if verdict is None:
        return f"{one.symbol}: no verdict"
    probability = _probability(verdict)
    said = f", probability {probability:.3f}" if probability is not None else ""
    return f"{one.symbol}: {verdict.rating} ({verdict.confidence}{said})"


def last_verdict(session: Session, account: str, symbol: str) -> Verdict | None:
    rows = select(Verdict).join(Run, col(Run.id) == col(Verdict.run_id))
    rows = rows.where(Verdict.symbol == symbol, Run.account == account)
    return session.exec(rows.order_by(col(Verdict.created_at).desc(), col(Verdict.id).desc())).first()


_STATES: Mapping[str, tuple[OrderState, ...]] = {
    "denied": (OrderState.DENIED,), "refused": (OrderState.DENIED,), "denials": (OrderState.DENIED,),
    "denial": (OrderState.DENIED,), "rejected": (OrderState.REJECTED,), "filled": (OrderState.FILLED,),
    "open": tuple(OrderState(one) for one in ORDER_OPEN), "unknown": (OrderState.UNKNOWN,),
    "submitted": (OrderState.SUBMITTED,), "working": tuple(OrderState(one) for one in ORDER_OPEN),
}  # fmt: skip


def orders(desk: Desk, question: Question) -> Answer:
    since = desk.since(question)
    states = [state for word, states in _STATES.items() if question.says(word) for state in states]
    wanted: list[Any] = [Order.account == desk.account]
    wanted += [col(Order.symbol).in_(question.symbols)] if question.symbols else []
    wanted += [col(Order.state).in_(states)] if states else []
    wanted += [col(Order.created_at) >= since] if since is not None else []
    most = question.count or MOST
    with desk.store.read() as session:
        counts = dict(session.execute(select(Order.state, func.count()).where(*wanted).group_by(Order.state)).all())
        newest = (col(Order.created_at).desc(), col(Order.ordinal).desc())
        rows = session.exec(select(Order).where(*wanted).order_by(*newest).limit(most)).all()
    whole = sum(counts.values())
    by_state = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(counts.items()))
    begun = f" since {desk.time(since)}" if since is not None else ""
    head = f"{whole} order{'' if whole == 1 else 's'}{begun}{f': {by_state}' if by_state else ''}"
    lines = [head, *(f"{at_listing(one.market_at, one.symbol)}: {_ordered(one)}" for one in rows)]
    return Answer(
        question=question.text, intent="orders", text=listed(lines, whole - len(rows)),
        facts={"orders": whole, "states": counts, "rows": [_facts_of(one) for one in rows]},
        sources=[order_source(one.id) for one in rows],
    )  # fmt: skip


_ORDER = {"symbol", "side", "quantity", "state", "denial_code", "denial_reason", "market_at"}


def _facts_of(one: Order) -> dict[str, Any]:
    return one.model_dump(mode="json", include=_ORDER)


def _ordered(one: Order) -> str:
    return order_label(one).replace(": denied, denied: ", ": denied, ")


_FILL = {"symbol", "side", "quantity", "price", "filled_at"}


def fills(desk: Desk, question: Question) -> Answer:
    since = desk.since(question)
    sides = [
        side
        for side, said in (("buy", ("buy", "bought", "buys")), ("sell", ("sell", "sold", "sells")))
        if question.says(*said)
    ]
    wanted: list[Any] = [Fill.account == desk.account]
    wanted += [col(Fill.symbol).in_(question.symbols)] if question.symbols else []
    wanted += [col(Fill.side).in_(sides)] if sides else []
    wanted += [col(Fill.created_at) >= since] if since is not None else []
    most = question.count or MOST
    with desk.store.read() as session:
        newest = (col(Fill.created_at).desc(), col(Fill.id).desc())
        rows = session.exec(select(Fill).where(*wanted).order_by(*newest).limit(most)).all()
        whole = session.exec(select(func.count()).select_from(Fill).where(*wanted)).one()
    head = f"{whole} fill{'' if whole == 1 else 's'}{f' since {desk.time(since)}' if since else ''}"
    lines = [head, *(f"{at_listing(one.filled_at, one.symbol)}: {_filled(one)}" for one in rows)]
    return Answer(
        question=question.text, intent="fills", text=listed(lines, whole - len(rows)),
        facts={"fills": whole, "rows": [one.model_dump(mode="json", include=_FILL) for one in rows]},
        sources=[order_source(one.order_id) for one in rows],
    )  # fmt: skip


def _filled(one: Fill) -> str:
    did = "bought" if one.side == "buy" else "sold"
    return f"{did} {plain(one.quantity)} {one.symbol} at {plain(one.price)}{f' {one.currency}' if one.currency else ''}"


def equity(desk: Desk, question: Question) -> Answer:
    """Return the account's newest mark, and the change since the moment that is asked for."""
    since = desk.since(question)
    with desk.store.read() as session:
        days = equity_curve(session, desk.account, 5000).days
    if not days:
        none = f"{desk.account} has no equity mark yet"
        return Answer(
            question=question.text, intent="equity", text=none, missing=["equity: no order pass marked it yet"]
        )
    newest, currency = days[-1], desk.settings.currency
    before = [one for one in days if since is not None and one.marked_at <= since]
    text = f"{desk.account}: equity {amount(newest.equity, currency)} on {newest.day}, {newest.change:+,.2f} on the day"
    text += f" ({share(newest.change_share)}); highest {amount(newest.high_water, currency)}"
    text += f", drawdown {share(newest.drawdown)}"
    facts: dict[str, Any] = newest.model_dump(mode="json")
    if since is not None:
        first = before[-1].equity if before else days[0].opening
        facts |= {"before": first, "moved": newest.equity - first}
        text += f"; since {desk.time(since)} {newest.equity - first:+,.2f} from {amount(first, currency)}"
    seen: list[str] = []
    if question.says("cash"):
        cash = desk.detail(seen).cash
        facts["cash"] = cash
        text = f"cash {amount(cash, currency)}; {text}"
    return Answer(question=question.text, intent="equity", text=text, facts=facts)


def cost(desk: Desk, question: Question) -> Answer:
    """Return the tokens and money of the UTC day, of a run, or since a moment."""
    with desk.store.read() as session:
        if question.ids:
            run = found_run(session, question.ids[0])
            spent = session.exec(
                select(func.coalesce(func.sum(Turn.total_tokens), 0)).where(Turn.run_id == run.id)
            ).one()
            priced = cost_of(session, desk.settings, run.id)
            return Answer(
                question=question.text, intent="cost", text=f"run {run.id[:SHORT_ID]}: {spent:,} tokens, {priced}",
                facts={"tokens": spent, "usd": priced.usd}, sources=[run_source(run.id)],
            )  # fmt: skip
        since = desk.since(question)
        if since is not None and question.since != "today":
            return _since(session, desk, question, since)
        used = use_of_day(session, desk.settings)
        begun = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        counted, played = _tokens_by_role(session, begun)
    budget = desk.settings.budget_day_tokens
    limit = f" of {budget:,} a UTC day (DESK_BUDGET_DAY_TOKENS)" if budget else ", without a limit"
    text = f"{used.tokens:,} tokens{limit}; {used.cost}{_told(counted, played)}"
    facts = {"tokens": used.tokens, "budget": budget, "usd": used.cost.usd, "roles": dict(counted), "played": played}
    return Answer(question=question.text, intent="cost", text=text, facts=facts)


def _since(session: Session, desk: Desk, question: Question, since: dt.datetime) -> Answer:
    counted, played = _tokens_by_role(session, since)
    spent = sum(counted.values())
    text = f"{spent:,} tokens since {desk.time(since)}{_told(counted, played)}"
    facts = {"tokens": spent, "roles": dict(counted), "played": played}
    return Answer(question=question.text, intent="cost", text=text, facts=facts)


def _tokens_by_role(session: Session, since: dt.datetime) -> tuple[Counter[str], int]:
    """Return the tokens of turns that ended since, by role; and those of backtests that rules played, apart: they count
    to no budget."""
    of_backtest = col(Run.account).startswith(BACKTEST) & (col(Turn.provider) == RULES)
    spent = select(Turn.role, of_backtest, func.sum(Turn.total_tokens)).join(Run, col(Run.id) == col(Turn.run_id))
    counted, played = Counter[str](), 0
    spent = spent.where(col(Turn.finished_at) >= since).group_by(Turn.role, of_backtest)
    for role, is_played, tokens in session.execute(spent).all():
        if is_played:
            played += tokens or 0
        else:
            counted[role] += tokens or 0
    return counted, played


def _told(counted: Counter[str], played: int) -> str:
    roles = ", ".join(f"{role} {tokens:,}" for role, tokens in counted.most_common(5) if tokens)
    beside = f"{played:,} more of backtests by rules, which count to no budget" if played else ""
    return "".join(f"; {one}" for one in (roles, beside) if one)


def found_run(session: Session, part: str) -> Run:
    """Return the run whose id begins so. Raises NotFound."""
    from chordesk.models.database.lookup import by_prefix

    found: Run = by_prefix(session, Run, part)
    return found


ANSWERS: Mapping[str, Answering] = {
    "holdings": holdings, "weakest": weakest, "strongest": strongest, "orders": orders, "fills": fills,
    "equity": equity, "cost": cost,
}  # fmt: skip
