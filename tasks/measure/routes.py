"""Routes of experiments."""

from __future__ import annotations

from fastapi import APIRouter

from chordesk.tasks.measure.experiment_view import (
    ExperimentDetail,
    ExperimentRow,
    arms_of,
    experiment,
    list_experiments,
)
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.schemas import Id
from chordesk.tasks.web.security import JsonRoute

router = APIRouter(tags=["runs"], route_class=JsonRoute)


@router.get("/experiments")
def experiments(context: Context) -> list[ExperimentRow]:
    """List the experiments, the newest first."""
    with context.store.read() as session:
        return list_experiments(session)


@router.get("/experiments/{experiment_id}")
def one_experiment(context: Context, experiment_id: Id) -> ExperimentDetail:
    """Show an ended experiment: differences in pairs, tokens, names judged apart."""
    with context.store.read() as session:
        return experiment(session, context.settings, arms_of(session, experiment_id))
