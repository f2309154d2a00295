"""Adoption of a run by another model: a person lets it go on where no worker has the model that it was opened with."""

from __future__ import annotations

from typing import get_args

from pydantic import ValidationError
from sqlmodel import Session

from chordesk.agents.role_models import require_roles
from chordesk.models import event_log, events
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run, snapshot, with_values
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.engine.steps import open_runs_below
from chordesk.tools.orders import audit

PROVIDERS: tuple[str, ...] = get_args(Settings.model_fields["provider"].annotation)
# What of a run's settings names its models: the model is the one that was asked for, the rest is the desk's.
_OF_MODELS = ("provider", "model", "provider_url", "local_url", "role_models", "voice_models")


def with_model(settings: Settings, text: str) -> Settings:
    """Return the desk's settings with the model PROVIDER:MODEL in place of theirs. Raises UsageError."""
    provider, _, model = text.strip().partition(":")
    if provider not in PROVIDERS:
        raise UsageError(f"--model {text!r} names no provider", remedy=f"write {_FORM}")
    if not model and provider not in ("rulebook", settings.provider):
        raise UsageError(f"--model {text!r} names no model of {provider}", remedy=f"write {_FORM}")
    if provider in ("endpoint", "local") and settings.provider_url is None:
        reason = f"--model {text!r}: this desk has no address for it"
        raise UsageError(reason, remedy="set DESK_PROVIDER_URL where the desk is started")
    try:
        return with_values(settings, {"provider": provider, "model": model or settings.model})
    except ValidationError as error:
        raise UsageError(f"--model {text!r}: {error.errors()[0]['msg']}", remedy=f"write {_FORM}") from None


_FORM = f"PROVIDER:MODEL, such as codex:gpt-5.5, or rulebook; providers are {', '.join(PROVIDERS)}"


def adopt(session: Session, settings: Settings, run_id: str, by: str) -> list[str]:
    """Give an open run, and the runs below it, the models of these settings; turns in flight keep theirs. Return a line
    for each run. Raises UsageError, SettingError."""
    return [_adopt(session, settings, one, by) for one in (run_id, *open_runs_below(session, [run_id]))]


def _adopt(session: Session, settings: Settings, run_id: str, by: str) -> str:
    run = session.get_one(Run, run_id, with_for_update=True, populate_existing=True)
    if run.state in RUN_FINAL:
        raise UsageError(f"run {run.id} has ended: {run.state}", remedy="start a new one")
    theirs = snapshot(settings)
    kept = {**(run.settings or snapshot(settings)), **{name: theirs[name] for name in _OF_MODELS}}
    require_roles(in_run(settings, kept, run.account))
    line = f"{by} had run {run.id} go on with {settings.model_label} in place of {run.model}"
    audit.record(session, settings, "run_adopted", run=run.id, was=run.model, model=settings.model_label, by=by)
    run.provider, run.model, run.settings = settings.provider, settings.model_label, kept
    run.notes = [*run.notes, line]
    session.add(run)
    event_log.append(session, [events.adopted(run, by)])
    return line
