"""Routes of a run's course: its timeline, its funnel, the table of its candidates, what differs from another, and its
report as a file."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from chordesk.tasks.documents.building.run import run_document
from chordesk.tasks.documents.rendering.formats import MEDIA_TYPES, Format, rendered
from chordesk.tasks.documents.rendering.html import policy
from chordesk.tasks.documents.schema.documents import RunDocument
from chordesk.tasks.views.history.comparison import RunComparison, comparison
from chordesk.tasks.views.history.funnel import Funnel, funnel
from chordesk.tasks.views.history.table import CandidateTable, candidate_table
from chordesk.tasks.views.history.timeline import Timeline, timeline
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.schemas import Id
from chordesk.tasks.web.security import JsonRoute

router = APIRouter(tags=["runs"], route_class=JsonRoute)


@router.get("/runs/{run_id}/timeline")
def run_timeline(context: Context, run_id: Id) -> Timeline:
    """Show each step of a run with its attempts, workers, waits and turns, and those that have not begun."""
    with context.store.read() as session:
        return timeline(session, find_run(session, run_id))


@router.get("/runs/{run_id}/funnel")
def run_funnel(context: Context, run_id: Id) -> Funnel:
    """Show a run's universe, hits, candidates, verdicts, orders and fills, each with the ids behind its count."""
    with context.store.read() as session:
        return funnel(session, find_run(session, run_id))


@router.get("/runs/{run_id}/table")
def run_table(context: Context, run_id: Id) -> CandidateTable:
    """Show a run's candidates with one cell a role, the verdict with the rule that decided it, and the orders."""
    with context.store.read() as session:
        return candidate_table(session, find_run(session, run_id))


@router.get("/runs/{run_id}/compare/{other_id}")
def compare(context: Context, run_id: Id, other_id: Id) -> RunComparison:
    """Compare a run with another one of its kind: candidates, verdicts, tokens and money, settings."""
    with context.store.read() as session:
        return comparison(session, context.settings, find_run(session, run_id), find_run(session, other_id))


_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "model": RunDocument,
        "content": {"text/html": {}, "text/markdown": {}},
        "description": "The report, as a file to keep.",
    }
}


@router.get("/runs/{run_id}/report", response_class=Response, responses=_FILE)
def run_report(context: Context, run_id: Id, format: Format = "html") -> Response:
    """Make the report of a run: HTML with its charts in it, markdown or JSON, as `desk report` does."""
    with context.store.read() as session:
        found = find_run(session, run_id).id
    made = run_document(context.desk, found)
    headers = {
        "Content-Disposition": f'attachment; filename="{made.title.replace(" ", "-")}.{format}"',
        "Content-Security-Policy": f"{policy()}; frame-ancestors 'none'",
    }
    text = rendered(made, format)
    return Response(text, media_type=MEDIA_TYPES[format], headers=headers)
