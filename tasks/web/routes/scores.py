"""The route of scores: what time made of forecasts and verdicts."""

from __future__ import annotations

from fastapi import APIRouter

from chordesk.models.errors import UsageError
from chordesk.tasks.views.scores import ScoreBoard, ScoreKind, scores
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.schemas import TextFilter
from chordesk.tasks.web.security import JsonRoute

router = APIRouter(tags=["scores"], route_class=JsonRoute)


@router.get("/scores")
def show(
    context: Context, kind: ScoreKind | None = None, name: TextFilter = None, account: TextFilter = None
) -> ScoreBoard:
    """Show the scores of an account's voices, tools, lenses, roles and verdicts over resolved questions, by default the
    desk's own account; of one kind or, with its name, of one source alone."""
    if name is not None and kind is None:
        raise UsageError("a name was given without its kind", remedy="give kind too, such as kind=voice")
    settings = context.settings
    with context.store.read() as session:
        return scores(session, account or settings.account, settings.model_cutoffs, kind, name)
