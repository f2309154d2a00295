"""The run that drafts a lens: one turn of the drafter, whose answer the run keeps. It writes no file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from sqlmodel import Session, select

from chordesk.agents.desk_roles import own_lenses
from chordesk.agents.drafting.drafter import DRAFTER, draft_subject
from chordesk.agents.drafting.policies import knows
from chordesk.agents.role_models import RULES_MODEL, role_models
from chordesk.models.answers import Skipped
from chordesk.models.errors import UsageError
from chordesk.models.settings import KNOWN_LENSES, Settings
from chordesk.models.settings.types import own_texts
from chordesk.models.tables.runs import Run, Step
from chordesk.models.text import one_line
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.drafting.drafts import require_place, require_words
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import Look, Request, new_run, open_run
from chordesk.tools.lenses.figures import known_figures
from chordesk.tools.lenses.files import MOST_WORDS
from chordesk.tools.market.universe import resolve_universe

KIND, STEP = "lens_draft", "draft_lens"


class DraftRequest(Request):
    """A request for a draft of a lens. The run keeps the draft; a person keeps the file."""

    kind: Literal["lens_draft"]
    words: str = Field(min_length=1, max_length=MOST_WORDS, description="what the lens is to look for")
    name: str | None = Field(None, description="of the lens; by default the drafter's")

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        return open_draft(app, self.words, self.name, look)


def open_draft(app: DeskApp, words: str, name: str | None = None, look: Look | None = None) -> Run:
    """Open a run that drafts a lens. Raises UsageError for no words, too many, a name that cannot be kept, and words of
    which a drafter on rules makes none."""
    require_words(words)
    require_place(app.desk.settings, name)
    require_phrase(app.desk.settings, words)
    run = new_run(app.desk, KIND, {"words": words.strip(), "name": name})
    return open_run(app, run, lambda _session, _run, finish: [NewStep(STEP, finish, "lens", DRAFTER)], look)


def require_phrase(settings: Settings, words: str) -> None:
    """Raise UsageError where the drafter is on rules and has none for the words: its draft could not be used."""
    if role_models(settings)[DRAFTER].model == RULES_MODEL and not knows(words):
        raise UsageError(
            f"the drafter of the provider {settings.provider} makes no rule of {one_line(words, 60)!r}",
            remedy="write the rule: desk lens new WORDS --where 'momentum60 > 0.05'; or choose a model: desk setup",
        )


def draft(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        asked = session.get_one(Run, step.run_id).params
    context = desk.tool_context(step.run_id)
    settings, name = context.settings, asked["name"]
    before = own_texts(settings.own_lenses, settings.home).get(name) if name else None
    known = known_figures(context, resolve_universe(settings.universe, context.market))
    taken = {*KNOWN_LENSES, *own_lenses(settings)}
    brief = draft_subject(settings, asked["words"], name, before, known, taken)
    run = held.turns.run(DRAFTER, step.subject, brief)
    result: dict[str, Any] = {"status": run.status, "reason": run.reason}
    if run.value and run.last_turn is not None:
        result["draft"] = {"name": run.value["name"], "text": run.value["text"], "author": run.last_turn.model}
    failed = not run.value and not isinstance(run.outcome, Skipped)
    return Done(result, run.rows, error=run.reason if failed else None)


def draft_of(session: Session, run: Run) -> dict[str, str] | None:
    """Return the name, text and author of a run's draft; None where it has none."""
    step = session.exec(select(Step).where(Step.run_id == run.id, Step.kind == STEP)).first()
    found: dict[str, str] | None = step.result.get("draft") if step is not None else None
    return found


def why_without(session: Session, run: Run) -> str:
    """Return why a run has no draft."""
    if run.kind != KIND:
        return f"it is of the kind {run.kind}"
    step = session.exec(select(Step).where(Step.run_id == run.id, Step.kind == STEP)).first()
    if step is None:
        return "it has no such step"
    return step.error or step.result.get("reason") or f"it is {run.state}"


def _turns(_params: Any, _settings: Settings, _held: int) -> dict[str, int]:
    return {DRAFTER: 1}


WORKFLOWS = (
    Workflow(
        KIND,
        mode="research",
        steps=(StepSpec(STEP, "research", draft, title="drafted", turn=True, spine=True),),
        turns=_turns,
        request=DraftRequest,
        without_orders={},
        by_hand="a person looks at its draft, and keeps it or not",
    ),
)
