"""How often a fresh turn says otherwise than the report that counted again: `python -m tests.ordeal.again`.

Read from the newest experiment of a home (DESK_HOME) whose arms play the same sessions, the first with DESK_REUSE=off,
the second with it on (`--memory on`, so that both play their sessions in order):

    desk experiment --memory on --arm "anew: DESK_REUSE=off" --arm "near: DESK_REUSE=near" --from ... --to ...

A report that counted again is held against the one that the first arm's role wrote on the same name in the same
session; so is each verdict that rests on such reports, and each session's orders.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlmodel import Session, col, func, select

from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import REUSED, RunKind, StepKind
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Report, Run, Step, Turn, Verdict

Place = tuple[dt.date, str, str]  # session, symbol, role


class Said(NamedTuple):
    """What a report or a verdict comes to."""

    word: str | None  # verdict or rating
    probability: float | None


@dataclass
class Arm:
    """What one arm of an experiment said. again: of its reports those that are an earlier session's."""

    reports: dict[Place, Said] = field(default_factory=dict)
    again: set[Place] = field(default_factory=set)
    verdicts: dict[tuple[dt.date, str], Said] = field(default_factory=dict)
    orders: dict[dt.date, set[tuple[str, str, float]]] = field(default_factory=lambda: defaultdict(set))
    tokens: int = 0
    not_spent: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """Of pairs of what was said: how many, in how many the word differs, and how far apart the probabilities are."""

    pairs: int
    words: int
    apart: Sequence[float]

    def __str__(self) -> str:
        if not self.pairs:
            return "none"
        of = f"{self.words} of {self.pairs} otherwise ({self.words / self.pairs:.1%})"
        if not self.apart:
            return of
        mean, most = statistics.fmean(self.apart), max(self.apart)
        return f"{of}; probabilities {mean:.4f} apart on average, at most {most:.4f}, n {len(self.apart)}"


def difference(fresh: Mapping[Any, Said], used: Mapping[Any, Said]) -> Difference:
    pairs = [(fresh[key], one) for key, one in used.items() if key in fresh]
    apart = [
        abs(a.probability - b.probability) for a, b in pairs if a.probability is not None and b.probability is not None
    ]
    return Difference(len(pairs), sum(a.word != b.word for a, b in pairs), apart)


def arm_of(session: Session, account: str) -> Arm:
    found, own = Arm(), col(Run.account) == account
    steps = select(Step, Run.market_now).join(Run).where(own, Step.kind == StepKind.REPORT)
    reports = {row.id: row for row in session.exec(select(Report).join(Run).where(own)).all()}
    for report in reports.values():
        found.reports[report.market_at.date(), report.symbol, report.role] = _said(report)
    for step, now in session.exec(steps).all():
        if step.result.get("status") == REUSED:
            place = now.date(), step.subject, step.role
            found.reports[place] = _said(reports[step.result["report_id"]])
            found.again.add(place)
            found.not_spent += step.result["tokens"]
    for verdict in session.exec(select(Verdict).join(Run).where(own)).all():
        pooled = verdict.pooled or {}
        found.verdicts[verdict.market_at.date(), verdict.symbol] = Said(verdict.rating, pooled.get("probability"))
    for order in session.exec(select(Order).where(Order.account == account)).all():
        found.orders[order.market_at.date()].add((order.action, order.symbol, order.quantity or 0.0))
    found.tokens = session.exec(select(func.sum(Turn.total_tokens)).join(Run).where(own)).one() or 0
    return found


def _said(report: Report) -> Said:
    return Said(report.verdict, (report.thesis or {}).get("probability"))


def main() -> None:
    store = Store(load_settings().database)
    with store.read() as session:
        runs = session.exec(select(Run).where(Run.kind == RunKind.BACKTEST).order_by(col(Run.created_at))).all()
        newest = next(run.params["experiment"] for run in reversed(runs) if run.params["experiment"])
        arms = [run for run in runs if run.params["experiment"] == newest]
        for run in arms:
            print(f"{run.params['arm']}: {run.params['changes']}, {run.state}, run {run.id}")
        fresh, again = (arm_of(session, run.account) for run in arms[:2])
    store.close()
    sessions = {day for day, _, _ in fresh.reports}
    print(f"{len(sessions)} sessions, {len(fresh.reports)} reports anew, {len(again.reports)} beside them")
    share = len(again.again) / len(again.reports)
    print(f"counted again: {len(again.again)} reports, {share:.1%}; {again.not_spent:,} tokens not spent")
    print(f"tokens: {fresh.tokens:,} anew, {again.tokens:,} beside them")
    print(f"reports that counted again: {difference(fresh.reports, {key: again.reports[key] for key in again.again})}")
    touched = {(day, symbol) for day, symbol, _ in again.again}
    rests = {key: one for key, one in again.verdicts.items() if key in touched}
    print(f"verdicts that rest on them: {difference(fresh.verdicts, rests)}")
    print(f"all verdicts: {difference(fresh.verdicts, again.verdicts)}")
    days = sorted({*fresh.orders, *again.orders})
    other = sum(fresh.orders[day] != again.orders[day] for day in days)
    print(f"sessions with orders: {len(days)}, with other orders {other}")


if __name__ == "__main__":
    main()
