"""What the account holds, is worth, ordered, traded and spent."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.market import multiplier_of
from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.tables.runs import Run, Turn, Verdict
from chordesk.models.text import SHORT_ID
from chordesk.tasks.asking.answers import (
    MOST,
    Answer,
    Answering,
    Desk,
    amount,
    listed,
    run_source,
    share,
)
from chordesk.tasks.asking.of_runs import found_run, named_kinds, newest_of
from chordesk.tasks.asking.questions import Question
from chordesk.tasks.engine.budgets import RULES, cost_of, use_of_day
from chordesk.tasks.reading.accounts import AccountDetail, PositionValue, equity_curve
from chordesk.tools.decimals import exact, plain

RATINGS = ("PASS", "INSUFFICIENT", "CAUTION", "HOLD", "BUY")  # the weakest first
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
    if question.says(*_LARGE, *_SMALL):
        return _by_size(desk, question, seen, missing)
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


_LARGE = ("biggest", "largest", "heaviest", "top", "main")
_SMALL = ("smallest", "tiniest", "lightest")


def _by_size(desk: Desk, question: Question, seen: AccountDetail, missing: list[str]) -> Answer:
    """Return the largest or smallest positions by what they are worth; by their cost where a price is missing."""
    small = question.says(*_SMALL)
    worth = {one.symbol: one.value for one in seen.holdings}
    by_cost = any(value is None for value in worth.values())
    sizes = {one.symbol: abs(_cost_of(one)) if by_cost else abs(one.value or 0.0) for one in seen.holdings}
    most = question.count or (1 if question.says("position", "holding") else 3)
    rows = sorted(seen.holdings, key=lambda one: (sizes[one.symbol], one.symbol), reverse=not small)[:most]
    lines = [f"{at}. {_held(one, desk.settings.currency)}" for at, one in enumerate(rows, 1)]
    rule = f"{'smallest' if small else 'largest'} first by {'cost, as prices are missing' if by_cost else 'worth'}"
    return Answer(
        question=question.text, intent="holdings",
        text="\n".join([*lines, f"({rule})"]) if lines else f"{desk.account} holds nothing",
        facts={"holdings": [_facts(one) for one in rows], "positions": seen.positions}, missing=missing,
    )  # fmt: skip


def _cost_of(one: PositionValue) -> float:
    each = one.average_cost if one.cost_base is None else one.cost_base
    return float(exact(one.quantity) * exact(each) * exact(multiplier_of(one.symbol)))


def _held(one: PositionValue, currency: str) -> str:
    gained = f", gain {amount(one.gain, currency)} ({share(one.gain_share)})"
    worth = f"worth {amount(one.value, currency)}, {share(one.share)} of equity"
    cost = f"{one.average_cost:,.4f}".rstrip("0").rstrip(".")
    since = f", for {one.days} day{'' if one.days == 1 else 's'}" if one.days is not None else ""
    paid = f"{cost}{f' {one.currency}' if one.currency else ''}"
    return f"{one.symbol}: {plain(one.quantity)} at {paid}, {worth}{gained}{since}"


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
        verdicts = {one.underlying: last_verdict(session, desk, one.underlying) for one in seen.holdings}
    rows = [(one, verdicts[one.underlying]) for one in seen.holdings]
    if question.says(*_BY_GAIN) or re.search(r"\b(?:in the|under water)\b", question.text.lower()):
        return _by_gain(desk, question, rows, missing, strongest=strongest)
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


_BY_GAIN = (
    "loser", "losers", "losing", "loss", "losses", "winner", "winners", "winning", "gainer", "gainers", "gain", "gains",
    "profit", "profits", "performing", "performer", "performers", "underwater", "profitable",
)  # fmt: skip


def _by_gain(
    desk: Desk, question: Question, rows: list[tuple[PositionValue, Verdict | None]], missing: list[str], *,
    strongest: bool,
) -> Answer:  # fmt: skip
    """Return the positions with a gain, or with a loss, the farthest first."""
    known = [one for one, _ in rows if one.gain is not None]
    found = [one for one in known if (one.gain or 0.0) * (1 if strongest else -1) > 0]
    found.sort(key=lambda one: ((one.gain or 0.0) * (-1 if strongest else 1), one.symbol))
    shown = found[: question.count or MOST]
    lines = [f"{at}. {_held(one, desk.settings.currency)}" for at, one in enumerate(shown, 1)]
    what = "a gain" if strongest else "a loss"
    of = f"of {len(rows)} positions {len(found)} have {what}"
    of += f", of {len(rows) - len(known)} it is not known" if len(known) < len(rows) else ""
    return Answer(
        question=question.text, intent="strongest" if strongest else "weakest",
        text=listed([of, *lines], len(found) - len(shown)),
        facts={"holdings": [_facts(one) for one in shown], "count": len(found)}, missing=missing,
    )  # fmt: skip


def _rank(verdict: Verdict | None, strongest: bool) -> int:
    if verdict is None or verdict.rating not in RATINGS:
        return len(RATINGS)
    place = RATINGS.index(verdict.rating)
    return len(RATINGS) - 1 - place if strongest else place


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


def last_verdict(session: Session, desk: Desk, symbol: str, *wanted: Any) -> Verdict | None:
    rows = select(Verdict).join(Run, col(Run.id) == col(Verdict.run_id))
    rows = rows.where(Verdict.symbol == symbol, Run.account == desk.account, *desk.told(Run), *wanted)
    return session.exec(rows.order_by(col(Verdict.created_at).desc(), col(Verdict.id).desc())).first()


def equity(desk: Desk, question: Question) -> Answer:
    """Return the account's newest mark, and the change over the moments that are asked for."""
    since, until = desk.since(question), desk.until(question)
    with desk.store.read() as session:
        marks = equity_curve(session, desk.account, 5000).days
    days = [one for one in marks if until is None or one.marked_at < until]
    days = [one for one in days if desk.clock is None or one.day <= desk.clock.date()]
    if not days:
        none = f"{desk.account} has no equity mark{' before then' if marks else ' yet'}"
        return Answer(question=question.text, intent="equity", text=none, missing=["equity: no order pass marked it"])
    newest, currency = days[-1], desk.settings.currency
    before = [one for one in days if since is not None and one.marked_at < since]
    text = f"{desk.account}: equity {amount(newest.equity, currency)} on {newest.day}, {newest.change:+,.2f} on the day"
    text += f" ({share(newest.change_share)}); highest {amount(newest.high_water, currency)}"
    text += f", drawdown {share(newest.drawdown)}"
    facts: dict[str, Any] = newest.model_dump(mode="json")
    if since is not None:
        first = before[-1].equity if before else days[0].opening
        moved = float(exact(newest.equity) - exact(first))
        facts |= {"before": first, "moved": moved}
        whole = " since its first mark" if not before else desk.span(question)
        text += f";{whole} {moved:+,.2f} from {amount(first, currency)}"
    return Answer(question=question.text, intent="equity", text=text, facts=facts)


def cost(desk: Desk, question: Question) -> Answer:
    """Return the tokens and money of the UTC day, of a run, of research on symbols, or of the moments asked for."""
    with desk.store.read() as session:
        newest = question.says("last", "latest", "newest") or not (question.symbols or question.since or question.until)
        run = found_run(session, desk, question.ids[0]) if question.ids else None
        run = newest_of(session, desk, question) if run is None and newest else run
        if run is not None:
            return _of_run(session, desk, question, run)
        if question.symbols or question.until or question.since not in (None, "today") or named_kinds(question):
            return _spent(session, desk, question)
        used = use_of_day(session, desk.settings)
        begun = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        counted, played = _tokens_by_role(session, [col(Turn.finished_at) >= begun])
    budget = desk.settings.budget_day_tokens
    limit = f" of {budget:,} a UTC day (DESK_BUDGET_DAY_TOKENS)" if budget else ", without a limit"
    text = f"{used.tokens:,} tokens{limit}; {used.cost}{_told(counted, played)}"
    facts = {"tokens": used.tokens, "budget": budget, "usd": used.cost.usd, "roles": dict(counted), "played": played}
    return Answer(question=question.text, intent="cost", text=text, facts=facts)


def _of_run(session: Session, desk: Desk, question: Question, run: Run) -> Answer:
    spent = session.exec(select(func.coalesce(func.sum(Turn.total_tokens), 0)).where(Turn.run_id == run.id)).one()
    priced = cost_of(session, desk.settings, run.id)
    return Answer(
        question=question.text, intent="cost",
        text=f"run {run.id[:SHORT_ID]}, a {run.kind}: {spent:,} tokens, {priced}",
        facts={"tokens": spent, "usd": priced.usd}, sources=[run_source(run.id)],
    )  # fmt: skip


def _spent(session: Session, desk: Desk, question: Question) -> Answer:
    """Return the tokens of the moments asked for, or of all, and of research on symbols alone where any is named."""
    wanted = desk.within(question, col(Turn.finished_at))
    of = ""
    # "research on ED" is all that was asked about it, in runs of any kind
    if kinds := [kind for kind in named_kinds(question) if kind != "research" or not question.symbols]:
        wanted.append(col(Run.kind).in_(kinds))
        of = f" of runs of the kind {' and '.join(kinds)}"
    if question.symbols:
        wanted.append(col(Turn.subject).in_(question.symbols))
        of += f" on {', '.join(question.symbols)}"
    counted, played = _tokens_by_role(session, wanted)
    spent = sum(counted.values())
    text = f"{spent:,} tokens{of}{desk.span(question)}{_told(counted, played)}"
    facts = {"tokens": spent, "roles": dict(counted), "played": played}
    return Answer(question=question.text, intent="cost", text=text, facts=facts)


def _tokens_by_role(session: Session, wanted: list[Any]) -> tuple[Counter[str], int]:
    """Return the tokens of turns, by role; and those of backtests that rules played, apart: they count to no budget."""
    of_backtest = col(Run.account).startswith(BACKTEST) & (col(Turn.provider) == RULES)
    spent = select(Turn.role, of_backtest, func.sum(Turn.total_tokens)).join(Run, col(Run.id) == col(Turn.run_id))
    counted, played = Counter[str](), 0
    for role, is_played, tokens in session.execute(spent.where(*wanted).group_by(Turn.role, of_backtest)).all():
        if is_played:
            played += tokens or 0
        else:
            counted[role] += tokens or 0
    return counted, played


def _told(counted: Counter[str], played: int) -> str:
    roles = ", ".join(f"{role} {tokens:,}" for role, tokens in counted.most_common(5) if tokens)
    beside = f"{played:,} more of backtests by rules, which count to no budget" if played else ""
    return "".join(f"; {one}" for one in (roles, beside) if one)


ANSWERS: Mapping[str, Answering] = {
    "holdings": holdings, "weakest": weakest, "strongest": strongest, "equity": equity, "cost": cost,
}  # fmt: skip
