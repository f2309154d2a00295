"""Routes of a run's course: its timeline, its funnel, the table of its candidates, and what differs from another."""

from __future__ import annotations

from fastapi import APIRouter

from tasks.views.history.comparison import RunComparison, comparison
from tasks.views.history.funnel import Funnel, funnel
from tasks.views.history.table import CandidateTable, candidate_table
from tasks.views.history.timeline import Timeline, timeline
from tasks.views.run_view import find_run
from tasks.web.context import Context
from tasks.web.schemas import Id
from tasks.web.security import JsonRoute

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
