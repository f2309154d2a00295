"""The check of features: those in force, those left out, and what waits or is kept for one that is not here."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmodel import col, select

from chordesk.agents.roles import GRAPH_ROLES, ROLES
from chordesk.agents.runtime import ROLLOUT_DAYS
from chordesk.models import features
from chordesk.models.database.store import current
from chordesk.models.states import STEP_FINAL, StepState
from chordesk.models.tables.runs import Step
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.doctor.check import Check, CheckContext, ok, warn
from chordesk.tasks.engine import kinds


def features_found(context: CheckContext) -> Check:
    """Check that every installed feature is in force, and that nothing waits or is kept for one that is not."""
    kinds.run_kinds()  # loads the features' workflows
    found = ", ".join([each.name for each in features.in_force()] + [f"{name} (off)" for name in features.off()])
    wrong = [(str(each), each.remedy) for each in features.skipped()] + list(_of_no_feature(context))
    if not wrong:
        return ok(found)
    details, remedies = zip(*wrong, strict=True)
    return warn("; ".join((*details, f"in force: {found}")), "; ".join(remedies))


def _of_no_feature(context: CheckContext) -> Iterator[tuple[str, str]]:
    if current(context.settings.database)[0] is None:
        return
    waiting = select(Step.kind, Step.run_id).where(col(Step.state).in_(set(StepState) - STEP_FINAL)).distinct()
    with context.desk.store.read() as session:
        steps = dict(session.exec(waiting).all())
        threads = set(session.exec(select(KeptThread.role).distinct()).all())
    for kind in sorted(kind for kind in steps if kinds.find_step(kind) is None):
        run = steps[kind]
        yield (f"run {run} waits for {kind}, which no feature here has", f"install its package, or desk stop {run}")
    for role in sorted(threads - ROLES.keys() - GRAPH_ROLES.keys()):
        remedy = f"install its package; otherwise the thread is deleted once it is unused for {ROLLOUT_DAYS:g} days"
        yield f"a thread of the role {role} is kept, which no feature here has", remedy
