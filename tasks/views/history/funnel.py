"""The funnel of a run: universe, hits, candidates, verdicts, orders, fills, with what each count consists of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Candidate, Run, ScreenHit, Verdict

StageName = Literal["universe", "hits", "candidates", "verdicts", "orders", "fills"]


class FunnelItem(Frozen):
    """One thing behind a count. id: of its row, null for a symbol of the universe; label: lens of a hit, origin of a
    candidate, rating of a verdict, state of an order, side of a fill."""

    id: str | None
    symbol: str
    label: str | None = None


class FunnelStage(Frozen):
    """A stage. run_id: the run that has its rows; count: of rows; symbols: of different symbols among them; labels:
    rows by label."""

    stage: StageName
    run_id: str
    count: int
    symbols: int
    labels: dict[str, int]
    items: list[FunnelItem]


class Funnel(Frozen):
    """The stages in their order. For a trade run the first four are its source run's."""

    run_id: str
    stages: list[FunnelStage]


def funnel(session: Session, run: Run) -> Funnel:
    """Return the funnel of a run as far as it has come."""
    source_id = str(run.params.get("source_run") or run.id)
    source = run if source_id == run.id else session.get_one(Run, source_id)
    universe = [FunnelItem(id=None, symbol=symbol) for symbol in source.params.get("symbols") or ()]
    fills = session.exec(
        select(Fill.id, Fill.symbol, Fill.side)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(Order.run_id == run.id)
        .order_by(col(Fill.filled_at), col(Fill.id))
    ).all()
    return Funnel(
        run_id=run.id,
        stages=[
            _stage("universe", source_id, universe),
            _stage("hits", source_id, _rows(session, ScreenHit, ScreenHit.lens, source_id, ScreenHit.id)),
            _stage("candidates", source_id, _rows(session, Candidate, Candidate.origin, source_id, Candidate.rank)),
            _stage("verdicts", source_id, _rows(session, Verdict, Verdict.rating, source_id, Verdict.symbol)),
            _stage("orders", run.id, _rows(session, Order, Order.state, run.id, Order.ordinal)),
            _stage("fills", run.id, [FunnelItem(id=id_, symbol=symbol, label=side) for id_, symbol, side in fills]),
        ],
    )


def _rows(session: Session, table: Any, label: Any, run_id: str, order: Any) -> list[FunnelItem]:
    rows = session.exec(
        select(table.id, table.symbol, label).where(table.run_id == run_id).order_by(col(order), table.id)
    ).all()
    return [FunnelItem(id=id_, symbol=symbol, label=value) for id_, symbol, value in rows]


def _stage(stage: StageName, run_id: str, items: list[FunnelItem]) -> FunnelStage:
    return FunnelStage(
        stage=stage,
        run_id=run_id,
        count=len(items),
        symbols=len({one.symbol for one in items}),
        labels=_counted(one.label for one in items if one.label is not None),
        items=items,
    )


def _counted(labels: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return dict(sorted(counts.items()))
