"""Why something was bought, sold, denied or left alone: the way from hits and reports to verdict, decision and fill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.states import OrderState
from chordesk.models.tables.board import Question as Asked
from chordesk.models.tables.board import ThesisQuestion
from chordesk.models.tables.orders import Fill, Order, TraderNote
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, Verdict, VerdictReport
from chordesk.models.text import SHORT_ID, one_line
from chordesk.tasks.asking.answers import MOST, Answer, Answering, Desk, Source, listed, order_source, run_source
from chordesk.tasks.asking.of_money import RATINGS, last_verdict
from chordesk.tasks.asking.of_runs import found_order, named_kinds
from chordesk.tasks.asking.questions import Question
from chordesk.tasks.reading.chain import Chain, chain, order_label, stance_of
from chordesk.tools.decimals import plain
from chordesk.tools.orders.protection import held_plans, unprotected

MOST_SYMBOLS = 5
LONGEST = 280  # characters of a model's or a person's own words
_BUYING = ("buy", "bought", "buys", "opened", "entered", "long")
_SELLING = ("sell", "sold", "sells", "closed", "exited", "exit", "reduced")
_DENYING = ("denied", "deny", "refused", "blocked", "rejected")
_NOT = ("not", "no", "never", "didn't", "isn't", "wasn't", "without", "didn", "skip", "skipped", "ignored")


def why(desk: Desk, question: Question) -> Answer:
    """Answer for each symbol, by its last order that fits the words and moments, else by its last research; or for the
    order whose id is given."""
    with desk.store.read() as session:
        if question.ids and not question.symbols:
            return _of_order(session, desk, question, found_order(session, desk, question.ids[0]))
        found = [_why(session, desk, question, one) for one in question.symbols[:MOST_SYMBOLS]]
    if len(found) == 1:
        return found[0]
    return Answer(
        question=question.text, intent="why", text="\n\n".join(one.text for one in found),
        facts={symbol: one.facts for symbol, one in zip(question.symbols, found, strict=False)},
        sources=[source for one in found for source in one.sources],
        missing=[lack for one in found for lack in one.missing],
    )  # fmt: skip


def _is_known(session: Session, desk: Desk, symbol: str) -> bool:
    runs = select(Candidate.id).join(Run, col(Run.id) == col(Candidate.run_id))
    runs = runs.where(Run.account == desk.account, Candidate.symbol == symbol, *desk.told(Run))
    return session.exec(runs.limit(1)).first() is not None or _newest(session, desk, symbol, []) is not None


def _why(session: Session, desk: Desk, question: Question, symbol: str) -> Answer:
    if not _is_known(session, desk, symbol):
        text = f"no run of {desk.account} had {symbol} as a candidate, and no order was for it"
        return Answer(question=question.text, intent="why", text=text, missing=[f"rows on {symbol}"])
    asked = desk.within(question, col(Order.created_at))
    order = None if _negated(question) else _fitting(session, desk, symbol, question, asked)
    if order is not None:
        found = _of_order(session, desk, question, order)
        filled = session.exec(select(Fill.id).where(Fill.order_id == order.id)).first() is not None
        if filled or order.state == OrderState.FILLED or not question.says("bought", "sold", "buy", "sell"):
            return found
        done = "bought" if order.side == "buy" else "sold"
        none = f"no order has {done} {symbol}{desk.span(question)}; the newest that was to:"
        return found.model_copy(update={"text": f"{none}\n{found.text}"})
    found = _of_research(session, desk, question, symbol)
    what = "denial" if question.says(*_DENYING) else "sale" if question.says(*_SELLING) else "order"
    if _negated(question) or not (asked or question.says(*_DENYING, *_SELLING, *_BUYING)):
        return found
    none = f"{desk.account} has no {what} of {symbol} of that kind{desk.span(question)}; what is known:"
    return found.model_copy(update={"text": f"{none}\n{found.text}"})


def _negated(question: Question) -> bool:
    return question.says(*_NOT) or "n't" in question.text.lower()


def _fitting(session: Session, desk: Desk, symbol: str, question: Question, asked: list[Any]) -> Order | None:
    """Return the newest order that the words mean: what was done before what was only wanted."""

    def newest(*wanted: Any) -> Order | None:
        return _newest(session, desk, symbol, [*asked, *wanted])

    filled, denied = col(Order.state) == OrderState.FILLED, col(Order.state) == OrderState.DENIED
    if question.says(*_DENYING):
        return newest(col(Order.state).in_((OrderState.DENIED, OrderState.REJECTED)))
    for words, side in ((_SELLING, "sell"), (_BUYING, "buy")):
        if question.says(*words):
            return newest(col(Order.side) == side, filled) or newest(col(Order.side) == side, ~denied)
    return newest(col(Order.protects).is_(None))


def _newest(session: Session, desk: Desk, symbol: str, wanted: Sequence[Any]) -> Order | None:
    rows = select(Order).where(Order.account == desk.account, Order.symbol == symbol, *desk.told(Order), *wanted)
    return session.exec(rows.order_by(col(Order.created_at).desc(), col(Order.ordinal).desc())).first()


def _of_order(session: Session, desk: Desk, question: Question, order: Order) -> Answer:
    seen = chain(session, session.get_one(Run, order.run_id), order.symbol, order.id)
    decision = session.get_one(Decision, order.decision_id)
    reason, missing = decision.reason_of(order.ordinal), []
    lines = [f"{order_label(order).replace(': denied, denied: ', ': denied, ')}, {desk.time(order.created_at)}"]
    if order.protects is not None and order.protects != order.id:
        lines += _ended(order, session.get(Order, order.protects))
    if order.denial_code and (order.measured or order.limit_text):
        lines.append(f"measured {order.measured or '-'}, limit {order.limit_text or '-'}")
    lines.append(f"{decision.author} decided: {one_line(reason, LONGEST)}" if reason else f"{decision.author} decided")
    if not reason:
        missing.append("a reason of the decision")
    lines += _ground(seen)
    facts: dict[str, Any] = order.model_dump(
        mode="json", include={"symbol", "side", "quantity", "state", "denial_code", "measured", "limit_text"}
    )
    facts |= {"nodes": [{"label": node.label, **node.facts} for node in seen.nodes]}
    return Answer(
        question=question.text, intent="why", text="\n".join(lines), facts=facts, missing=missing,
        sources=[order_source(order.id), run_source(order.run_id)],
    )  # fmt: skip


def _ended(order: Order, opened: Order | None) -> list[str]:
    """Return why an order that protects a position was placed, by the plan of the order that opened it."""
    lines = [f"the plan ended it: {order.exit_reason.replace('_', ' ')}"] if order.exit_reason else ["it is the stop"]
    if opened is not None and opened.plan:
        parts = [f"{name} {plain(float(value))}" for name in ("stop", "target") if (value := opened.plan.get(name))]
        parts += [f"ends after {opened.plan['ends']}"] if opened.plan.get("ends") else []
        lines.append(f"the plan was: {', '.join(parts)}; it was opened for what follows")
    return lines


def _ground(seen: Chain) -> list[str]:
    """Return what a decision rests on, a line of each kind."""
    lines = []
    for kind, name in (
        ("verdict", "verdict"),
        ("report", "reports"),
        ("hit", "hits"),
        ("approval", "approval"),
        ("fill", "fills"),
    ):
        nodes = seen.nodes_of(kind)  # type: ignore[arg-type]
        if kind == "verdict" and nodes:
            summary = one_line(str(nodes[0].facts.get("summary") or ""), LONGEST)
            lines.append(f"verdict: {nodes[0].label}{f': {summary}' if summary else ''}")
        elif nodes:
            lines.append(f"{name}: {'; '.join(one_line(node.label, 120) for node in nodes)}")
    return lines


def _of_research(session: Session, desk: Desk, question: Question, symbol: str) -> Answer:
    """Answer why nothing was ordered: the verdict, the trader's note, and a denial where there was one."""
    verdict = last_verdict(session, desk, symbol)
    note = session.exec(
        select(TraderNote)
        .where(TraderNote.account == desk.account, TraderNote.symbol == symbol, *desk.told(TraderNote))
        .order_by(col(TraderNote.market_at).desc(), col(TraderNote.id).desc())
    ).first()
    denied = _newest(session, desk, symbol, [col(Order.state) == OrderState.DENIED])
    lines, sources, facts = [], [], dict[str, Any]()
    if verdict is not None:
        lines.append(f"verdict on {symbol}, {desk.time(verdict.created_at)}: {_judged(verdict)}")
        lines += _reports(session, verdict)
        sources.append(run_source(verdict.run_id))
        facts |= verdict.model_dump(mode="json", include={"rating", "confidence", "pooled", "missing"})
    if note is not None:
        lines.append(f"the trader: {note.action}, {note.outcome}: {one_line(note.line, LONGEST)}")
    elif verdict is not None:
        decided = session.exec(select(Decision.reasoning).where(Decision.run_id == verdict.run_id)).first()
        said = f": {one_line(decided, LONGEST)}" if decided else ""
        lines.append(
            f"the trader took no action on it{said}" if decided is not None else "no trader decided on its run"
        )
    if denied is not None:
        lines.append(f"denied: {denied.denial_code}: {denied.denial_reason}")
        sources.append(order_source(denied.id))
        facts["denied"] = denied.denial_code
    bought = _newest(session, desk, symbol, [col(Order.side) == "buy", col(Order.state) == OrderState.FILLED])
    if bought is not None and _negated(question) and question.says(*_BUYING):
        lines.append(f"it was bought, though: {order_label(bought)}, {desk.time(bought.created_at)}")
        sources.append(order_source(bought.id))
    missing = [] if verdict is not None else [f"a verdict on {symbol}"]
    text = "\n".join(lines) or f"{symbol} has no verdict, no order and no note on {desk.account}"
    return Answer(question=question.text, intent="why", text=text, facts=facts, sources=sources, missing=missing)


def _judged(found: Verdict) -> str:
    pooled = found.pooled or {}
    odds = f", probability {pooled['probability']:.3f}" if pooled.get("probability") is not None else ""
    between = f" ({pooled['low']:.3f} to {pooled['high']:.3f})" if odds and pooled.get("low") is not None else ""
    return f"{found.rating} ({found.confidence}{odds}{between}): {one_line(found.summary, LONGEST)}"


def _reports(session: Session, verdict: Verdict) -> list[str]:
    rows = session.exec(
        select(Report)
        .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
        .where(VerdictReport.verdict_id == verdict.id)
        .order_by(col(Report.role))
    ).all()
    return [f"reports: {'; '.join(f'{row.role}: {stance_of(row)}' for row in rows)}"] if rows else []


def verdict(desk: Desk, question: Question) -> Answer:
    """Return the last verdict on each symbol that is named; without one those of the moments asked for, else of the
    newest run that has any."""
    if not question.symbols:
        return _verdicts(desk, question)
    with desk.store.read() as session:
        lines, sources, missing, facts = [], [], [], dict[str, Any]()
        for symbol in question.symbols:
            found = last_verdict(session, desk, symbol, *desk.within(question, col(Verdict.created_at)))
            if found is None:
                missing.append(f"a verdict on {symbol}")
                lines.append(f"{symbol}: {desk.account} has no verdict{desk.span(question)}")
                continue
            lines.append(f"{symbol}: {_judged(found)}, of {desk.time(found.created_at)}")
            lines += _reports(session, found)
            sources.append(run_source(found.run_id))
            facts[symbol] = found.model_dump(mode="json", include={"rating", "confidence", "pooled", "missing"})
    return Answer(
        question=question.text, intent="verdict", text="\n".join(lines), facts=facts, sources=sources, missing=missing
    )


def _verdicts(desk: Desk, question: Question) -> Answer:
    within = desk.within(question, col(Verdict.created_at))
    ratings = [one for one in RATINGS if question.says(one.lower())]
    kinds = named_kinds(question)
    with desk.store.read() as session:
        own = select(Verdict).join(Run, col(Run.id) == col(Verdict.run_id)).where(Run.account == desk.account, *within)
        if kinds:
            own = own.where(col(Run.kind).in_(kinds))
        own = own.order_by(col(Verdict.created_at).desc(), col(Verdict.id).desc())
        newest = session.exec(own.limit(1)).first()
        if newest is not None and not within:
            own = own.where(Verdict.run_id == newest.run_id)
        rows = session.exec(own).all()
    counts = dict(Counter(one.rating for one in rows))
    shown = [one for one in rows if not ratings or one.rating in ratings]
    of = f" of run {newest.run_id[:SHORT_ID]}" if newest is not None and not within else desk.span(question)
    of = f"{of} of the kind {' and '.join(kinds)}" if kinds else of
    told = ", ".join(f"{count} {rating}" for rating, count in sorted(counts.items()))
    if ratings:
        told = f"{len(shown)} rated {' or '.join(ratings)}{f'; {told}' if told else ''}"
    head = f"{len(rows)} verdict{'' if len(rows) == 1 else 's'}{of}{f': {told}' if told else ''}"
    lines = [f"{one.symbol}: {one.rating} ({one.confidence})" for one in shown[: 2 * MOST]]
    return Answer(
        question=question.text, intent="verdict", text=listed([head, *lines], len(shown) - len(lines)),
        facts={"verdicts": len(rows), "rated": len(shown), "ratings": counts, "symbols": [one.symbol for one in shown]},
        sources=[run_source(one) for one in dict.fromkeys(row.run_id for row in shown)][:MOST],
    )  # fmt: skip


def thesis(desk: Desk, question: Question) -> Answer:
    """Return the theses of each symbol's last research, and of those that were resolved how they ended."""
    found = [_theses(desk, question, one) for one in question.symbols[:MOST_SYMBOLS]]
    if len(found) == 1:
        return found[0]
    facts = {symbol: one.facts for symbol, one in zip(question.symbols, found, strict=False)}
    return Answer(
        question=question.text, intent="thesis", text="\n\n".join(one.text for one in found), facts=facts,
        sources=[source for one in found for source in one.sources],
        missing=[lack for one in found for lack in one.missing],
    )  # fmt: skip


def _theses(desk: Desk, question: Question, symbol: str) -> Answer:
    with desk.store.read() as session:
        rows = session.exec(
            select(Report, ThesisQuestion, Asked)
            .join(Run, col(Run.id) == col(Report.run_id))
            .join(ThesisQuestion, col(ThesisQuestion.report_id) == col(Report.id), isouter=True)
            .join(Asked, col(Asked.id) == col(ThesisQuestion.question_id), isouter=True)
            .where(Run.account == desk.account, Report.symbol == symbol, col(Report.thesis).is_not(None))
            .where(*desk.told(Run))
            .order_by(col(Report.market_at).desc(), col(Report.created_at).desc(), col(Report.role))
        ).all()
    newest = [row for row in rows if row[0].run_id == rows[0][0].run_id] if rows else []
    if not newest:
        none = f"no report on {symbol} has a thesis on {desk.account}"
        return Answer(question=question.text, intent="thesis", text=none, missing=[f"a thesis of {symbol}"])
    lines, facts = [f"{symbol}:"] if len(question.symbols) > 1 else [], []
    for report, link, asked in newest:
        lines.append(_stated(report, link, asked))
        facts.append({"role": report.role, "verdict": report.verdict, **(report.thesis or {})})
    ended = [asked.outcome for _, _, asked in rows if asked is not None and asked.outcome is not None]
    if ended:
        lines.append(
            f"of all theses on {symbol} {len(ended)} are resolved, {sum(one >= 0.5 for one in ended)} came true"
        )
    return Answer(
        question=question.text, intent="thesis", text="\n".join(lines), facts={"theses": facts, "resolved": len(ended)},
        sources=[Source(kind="run", id=newest[0][0].run_id, way=f"/runs/{newest[0][0].run_id}")],
    )  # fmt: skip


def _stated(report: Report, link: ThesisQuestion | None, asked: Asked | None) -> str:
    stated = report.thesis or {}
    odds = f", probability {stated['probability']}" if stated.get("probability") is not None else ""
    over = f" over {stated['horizon']} sessions" if stated.get("horizon") is not None else ""
    level = (
        f", invalid at {plain(stated['invalidation_price'])}" if stated.get("invalidation_price") is not None else ""
    )
    crossed = f", reached on {link.crossed_on}" if link is not None and link.crossed_on is not None else ""
    end = ""
    if asked is not None and asked.outcome is not None:
        end = ", came true" if asked.outcome >= 0.5 else ", did not come true"
    return f"{report.role}: {stance_of(report)}{odds}{over}{level}{crossed}{end}: {one_line(report.summary, LONGEST)}"


def plan(desk: Desk, question: Question) -> Answer:
    """Return the plans of positions, of the symbols that are named or of all; or what is held without a stop."""
    if question.says("unprotected", "without", "no", "missing", "lack", "lacks") and not question.symbols:
        return _unprotected(desk, question)
    with desk.store.read() as session:
        found = held_plans(session, desk.account)
        rows = [
            (held, order, plan)
            for held, order, plan in found
            if not question.symbols or held.symbol in question.symbols
        ]
        held = {one.symbol for one, _, _ in found}
        without = [one for one in question.symbols if one not in held]
    lines = [_planned(symbol=held.symbol, quantity=plain(held.held), plan=plan) for held, _, plan in rows]
    lines += [f"{symbol}: {desk.account} has no position with a plan" for symbol in without]
    facts = {"plans": [{"symbol": held.symbol, **plan.model_dump(mode="json")} for held, _, plan in rows]}
    return Answer(
        question=question.text, intent="plan", facts=facts, missing=[f"a plan of {symbol}" for symbol in without],
        text=listed(lines[:40], len(lines) - 40) or f"{desk.account} has no position with a plan",
        sources=[order_source(order.id) for _, order, _ in rows],
    )  # fmt: skip


def _unprotected(desk: Desk, question: Question) -> Answer:
    """Return the positions whose plan has no stop, and those without the stop that the settings ask for."""
    with desk.store.read() as session:
        planned = {held.symbol: plan for held, _, plan in held_plans(session, desk.account)}
        lacking = unprotected(session, desk.settings) if desk.account == desk.settings.account else []
    without = sorted(symbol for symbol, plan in planned.items() if plan.stop is None)
    lines = [f"no stop in its plan: {', '.join(without) or 'none of the positions with a plan'}"]
    lines += [f"without its stop at the broker: {plain(one.quantity)} {one.symbol}, {one.why}" for one in lacking]
    facts = {"without": without, "lacking": [one.symbol for one in lacking], "plans": len(planned)}
    return Answer(question=question.text, intent="plan", text="\n".join(lines), facts=facts)


def _planned(symbol: str, quantity: str, plan: Any) -> str:
    parts = [f"stop {plain(plan.stop)}" if plan.stop is not None else "no stop"]
    parts += [f"target {plain(plan.target)}"] if plan.target is not None else []
    parts += [f"ends after {plan.ends}"] if plan.ends is not None else []
    parts += [f"review {plan.review}"] if plan.review else []
    entry = plain(plan.entry) if plan.entry is not None else "no price"
    return f"{symbol}: {quantity} planned at {entry}: {', '.join(parts)}"


def symbol(desk: Desk, question: Question) -> Answer:
    """Answer a bare symbol: its verdict and what is held of it."""
    from chordesk.tasks.asking.of_money import holdings

    judged, held = verdict(desk, question), holdings(desk, question)
    return judged.model_copy(
        update={
            "intent": "symbol", "text": f"{judged.text}\n{held.text}",
            "facts": {"verdicts": judged.facts, **held.facts},
            "missing": [*judged.missing, *held.missing],
        }
    )  # fmt: skip


ANSWERS: Mapping[str, Answering] = {"why": why, "verdict": verdict, "thesis": thesis, "plan": plan, "symbol": symbol}
