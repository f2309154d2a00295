"""Signals of question sets: what came of earlier questions on the same series, or at the same price."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy
from sqlmodel import col

from chordesk.models.board import MAX_FINDINGS, BoardQuestion, Harvest, QuestionSource
from chordesk.models.tables.board import Question, SignalFinding
from chordesk.tools.benchmarks.forecastbench import LAG, LEVELS, MARKETS, Asked, Known, Record, Series
from chordesk.tools.board.context import Finding, HarvestContext, asleep
from chordesk.tools.questions.reading import known_column
from chordesk.tools.scoring.track_records import PRIOR, resolved

_NAME_CHARS = 24
NEAR = 0.1  # of a price, on either side
_BASIS = "none: a share of outcomes that were known a week before now"
_SERIES = Finding(
    "{series}: yes in {yes} of {known} earlier questions; with {others} on others of its source, {share:.0%}",
    _BASIS,
    "outcomes of {market}",
)
_PRICE = Finding(
    "price {price:.0%}: of {known} other questions near it, {yes} came true; drawn to the price, {share:.0%}",
    _BASIS,
    "outcomes of {market}",
)


class _Row(NamedTuple):
    """A question of a set. price: its baseline."""

    series: Series
    due: dt.date
    until: dt.date
    text: str
    price: float | None
    outcome: float | None

    @classmethod
    def of(cls, key: str, text: str, known: dt.datetime, price: float | None, outcome: float | None) -> _Row:
        due, source, name = key.split(" ", 2)
        until = known.date() if source in MARKETS else dt.date.fromisoformat(name[-len("2026-03-01") :])
        name = name if source in MARKETS else name[: -len(" 2026-03-01")]
        return cls(Series(source, name), dt.date.fromisoformat(due), until, text, price, outcome)


_COLUMNS = (
    *(col(Question.external_id), col(Question.text), col(Question.closes_at)),
    *(col(Question.baseline), col(Question.outcome)),
)


def record_signals(context: HarvestContext) -> Harvest:
    """Return a finding for each of the first five questions that are of a question set."""
    if context.tool.store is None:
        return asleep("there is no store")
    now = context.tool.clock.now()
    of_sets = col(Question.source) == QuestionSource.FORECASTBENCH
    ids = {one.id: one for one in context.questions}
    with context.tool.store.read() as session:
        asked = session.execute(
            sqlalchemy.select(col(Question.id), *_COLUMNS).where(of_sets, col(Question.id).in_(ids))
        ).all()
        if not asked:
            return asleep("no question is of a question set")
        outcomes = session.execute(
            sqlalchemy.select(*_COLUMNS[:2], known_column(), *_COLUMNS[3:]).where(of_sets, *resolved(now - LAG))
        ).all()
    known = [_Row.of(*row) for row in outcomes]
    rows = {ids[row[0]]: _Row.of(*row[1:])._replace(outcome=None) for row in asked}
    found = _of_series(context, known, {one: row for one, row in rows.items() if row.series.source not in MARKETS})
    found |= _of_prices(context, known, {one: row for one, row in rows.items() if row.series.source in MARKETS})
    return Harvest(findings=tuple(found[one] for one in context.questions if one in found)[:MAX_FINDINGS])


def _of_series(
    context: HarvestContext, known: Sequence[_Row], asked: Mapping[BoardQuestion, _Row]
) -> dict[BoardQuestion, SignalFinding]:
    found = {}
    for source in {row.series.source for row in asked.values()}:
        before = [row for row in known if row.series.source == source]
        mine = {one: row for one, row in asked.items() if row.series.source == source}
        questions = [Asked(row.series, row.due, row.due, row.until, row.text, None) for row in mine.values()]
        outcomes = [Known(row.series, row.due, row.until, row.outcome or 0.0) for row in before]
        kinds = {one.series: one.kind for one in questions}
        kinds |= {row.series: Asked(row.series, row.due, row.due, row.until, row.text, None).kind for row in before}
        shares = Record(outcomes, questions, kinds).rates(*LEVELS)
        for (one, row), share in zip(mine.items(), shares.tolist(), strict=True):
            same = [other.outcome for other in before if other.series == row.series]
            data = {
                "series": f"{source} {row.series.id[:_NAME_CHARS]}", "yes": sum(value == 1 for value in same),
                "known": len(same), "others": len(before) - len(same), "share": round(share, 4),
            }  # fmt: skip
            found[one] = _SERIES.of(
                context, data, subjects=(one.label,), as_of=context.tool.clock.now(), probability=share
            )
    return found


def _of_prices(
    context: HarvestContext, known: Sequence[_Row], asked: Mapping[BoardQuestion, _Row]
) -> dict[BoardQuestion, SignalFinding]:
    """A market's question is asked again in later sets: the last of its prices counts, as one question."""
    priced = {row.series: row for row in sorted(known, key=lambda row: row.due) if row.series.source in MARKETS}
    found = {}
    for one, row in asked.items():
        if (price := row.price) is None:
            continue
        near = [
            other.outcome or 0.0
            for other in priced.values()
            if other.series != row.series and other.price is not None and abs(other.price - price) <= NEAR
        ]
        share = (sum(near) + PRIOR * price) / (len(near) + PRIOR)
        data = {"price": price, "yes": sum(value == 1 for value in near), "known": len(near), "share": round(share, 4)}
        found[one] = _PRICE.of(context, data, subjects=(one.label,), as_of=context.tool.clock.now(), probability=share)
    return found
