"""The way of a symbol from its screen hits to its fills, step by step, with the turns and threads that made each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.tables.runs import Turn
from chordesk.tasks.documents.building.orders import order_steps
from chordesk.tasks.documents.building.pages import PageLinks
from chordesk.tasks.documents.schema.parts import LineageStep, LinkKind


def lineage_steps(
    session: Session, pages: PageLinks, found: Mapping[str, Any], orders: Sequence[Mapping[str, Any]]
) -> Iterator[LineageStep]:
    """Yield the steps in the order in which they rest on each other. found: as `tasks.views.lineage` has it; orders: as
    `order_view` has them."""
    rows = [*found["hits"], *found["reports"], *found["forecasts"], *([found["analysis"]] if found["analysis"] else [])]
    ended = _ended(session, {row["turn"] for row in rows if row["turn"] is not None})
    for row in found["hits"]:
        yield _of_turn("hit", None, f"{row['lens']} ({row['confidence']}): {row['thesis']}", row, ended, pages)
    verdict = found["verdict"]
    if verdict is not None:
        label = f"{verdict['origin']}, rank {verdict['rank']}"
        yield LineageStep(kind="candidate", id=verdict["candidate"], label=label, at=None, page=pages.run(found["run"]))
    for row in found["reports"]:
        label = f"{row['role']}: {row['verdict'] or row['status']} ({row['confidence'] or 'no confidence'})"
        yield _of_turn("report", row["report"], label, row, ended, pages, pages.report(row["report"]))
    if verdict is not None and verdict["verdict"] is not None:
        yield LineageStep(
            kind="verdict", id=verdict["verdict"], label=f"{verdict['rating']} ({verdict['confidence']})", at=None,
            page=pages.verdict(verdict["verdict"]),
        )  # fmt: skip
    if (row := found["analysis"]) is not None:
        label = f"{row['strategy']}: {row['recommendation']} {row['contract'] or ''}".rstrip()
        yield _of_turn("analysis", row["analysis"], label, row, ended, pages)
    for row in found["forecasts"]:
        label = f"{row['voice']}, round {row['round']}: {row['probability']:.0%} on {row['text']}"
        yield _of_turn("forecast", row["forecast"], label, row, ended, pages)
    for order in orders:
        yield from order_steps(order, pages)


def _ended(session: Session, ids: set[str]) -> dict[str, dt.datetime]:
    rows = session.exec(select(Turn.id, Turn.finished_at).where(col(Turn.id).in_(ids))).all()
    return dict(list(rows))


def _of_turn(
    kind: LinkKind,
    id_: str | None,
    label: str,
    row: Mapping[str, Any],
    ended: Mapping[str, dt.datetime],
    pages: PageLinks,
    page: str | None = None,
) -> LineageStep:
    return LineageStep(
        kind=kind,
        id=id_,
        label=label,
        at=ended.get(row["turn"]),
        turn_id=row["turn"],
        codex_turn_id=row["codex_turn"],
        thread_id=row["thread"],
        thread_reason=row.get("thread_reason"),
        page=page or pages.turn(row["turn"]),
    )
