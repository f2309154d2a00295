"""The list of checks, and the desk that they run on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

from jinja2 import TemplateError
from sqlmodel import col, select

from chordesk.agents.desk_roles import roles_in
from chordesk.agents.prompting import instructions
from chordesk.agents.role import Role
from chordesk.agents.roles import GRAPH_ROLES
from chordesk.agents.runtime import ROLLOUT_DAYS
from chordesk.models import features
from chordesk.models.database import feature_tables
from chordesk.models.database.feature_tables import Kept
from chordesk.models.database.store import current, every_table, feature_lines
from chordesk.models.descriptions import said
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.features import Skipped
from chordesk.models.settings.running_desk import is_up
from chordesk.models.settings.sources import Loaded
from chordesk.models.states import STEP_FINAL, StepState
from chordesk.models.tables.runs import Step
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks import schedules
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.doctor import check, machine, model, places, trading
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, ok, warn
from chordesk.tasks.engine import kinds
from chordesk.tasks.services import plan
from chordesk.tasks.services.stack import Stack


def features_found(context: CheckContext) -> Check:
    """Check that every installed feature is in force, and that nothing waits or is kept for one that is not."""
    every_table()  # a package whose tables are misnamed keeps nothing, whatever the revision of the database
    wrong = [*features.lost_views(), *features.strange_settings(type(context.settings).model_fields), *features.slow()]
    wrong += list(_of_prompts(context))
    found = ", ".join([each.name for each in features.in_force()] + [f"{name} (off)" for name in features.off()])
    kept = _kept(context)  # may find what can keep nothing
    left_out = (*features.skipped(), *features.unready().values())
    told = {each.why for each in left_out}
    wrong = [(_of_processes(each), each.remedy) for each in left_out] + wrong
    # Of tables whose package is among those lines, the reason is there.
    wrong += [
        (str(each).removesuffix(f": {each.why}") if each.why in told else str(each), each.remedy) for each in kept
    ]
    wrong += list(_of_no_feature(context))
    return _listed(wrong, found)


def _of_processes(each: Skipped) -> str:
    if not features.is_dropped(each.name):
        return str(each)
    return f"{each}; a process that does not use that part has the rest of the package"


def _of_prompts(context: CheckContext) -> Iterator[tuple[str, str]]:
    """Yield the prompts of packages' roles that cannot be rendered: each turn of such a role fails."""
    for feature, given in features.parts("roles", kind=Role, many=True):
        for role in (role for roles in given for role in roles if not features.is_own(feature)):
            try:
                instructions(role, context.settings)
            except TemplateError as error:
                reason = f"the prompt {role.prompt} of the feature {feature.name} cannot be rendered: {said(error)}"
                yield reason, f"correct its package, or set {features.OFF}={feature.name}"


def _listed(wrong: Sequence[tuple[str, str]], found: str) -> Check:
    """Return one row of what is wrong, each once and numbered, with the numbers before each remedy."""
    if not wrong:
        return ok(found)
    reasons = list(dict.fromkeys(reason for reason, _ in wrong))
    if len(reasons) == 1:
        return warn(f"{reasons[0]}; in force: {found}", wrong[0][1])
    places: dict[str, list[str]] = {}
    for reason, remedy in dict.fromkeys(wrong):
        places.setdefault(remedy, []).append(str(reasons.index(reason) + 1))
    details = (f"{place}. {reason}" for place, reason in enumerate(reasons, start=1))
    remedies = (f"{', '.join(at)}. {remedy}" for remedy, at in places.items())
    return warn("\n".join((f"in force: {found}", *details)), "\n".join(remedies))


def _kept(context: CheckContext) -> list[Kept]:
    lines, kept = feature_lines(context.settings.database)
    feature_tables.set_unready(lines)
    return kept


def _of_no_feature(context: CheckContext) -> Iterator[tuple[str, str]]:
    if current(context.settings.database)[0] is None:
        return
    waiting = select(Step.kind, Step.run_id).where(col(Step.state).in_(set(StepState) - STEP_FINAL)).distinct()
    with context.desk.store.read() as session:
        steps = dict(session.exec(waiting).all())
        threads = set(session.exec(select(KeptThread.role).distinct()).all())
        scheduled = schedules.entries(session, context.settings)
    for kind, run in sorted(steps.items()):
        if (lack := kinds.missing(kind)) is not None:
            yield f"run {run} waits for {kind}, {lack.reason}", f"{lack.remedy}, or desk stop {run}"
    for role in sorted(threads - roles_in(context.settings).keys() - GRAPH_ROLES.keys()):
        lack = features.missing("roles", role)
        remedy = f"{lack.remedy}; otherwise the thread is deleted once it is unused for {ROLLOUT_DAYS:g} days"
        yield f"a thread of the role {role} is kept, {lack.reason}", remedy
    for entry in scheduled:
        if entry.enabled and entry.lack is not None:
            yield f"the schedule's {entry.name} starts nothing: {entry.lack}", f"or desk schedule off {entry.name}"


_OWN = (
    CheckEntry("features", features_found, 10),
    CheckEntry("python", machine.python, 5),
    CheckEntry("codex binary", machine.binary, 20),
    CheckEntry("login", machine.login, 20),
    CheckEntry("plan", model.plan, 10),
    CheckEntry("prices", model.price, 5),
    CheckEntry("room", machine.room, 10),
    CheckEntry("ports", machine.ports, 5),
    CheckEntry("processes", machine.processes, 10),
    CheckEntry("file modes", machine.file_modes, 30),
    CheckEntry("redis", check.redis_server, 10),
    CheckEntry("messages", check.messages, 30),
    CheckEntry("database", check.database, 30),
    CheckEntry("soundness", check.sound, 600, slow=True),
    CheckEntry("backup", check.backups, 5),
    CheckEntry("market", trading.market, 60),
    CheckEntry("data", trading.data, 120, slow=True),
    CheckEntry("broker", trading.broker, 60),
    CheckEntry("trading", trading.trading, 10),
    CheckEntry("audit log", trading.audit_log, 30),
    CheckEntry("mandate", trading.mandate, 10),
    CheckEntry("protection", trading.protection, 10),
    CheckEntry("clock", trading.clock, 30),
    CheckEntry("exchanges", places.exchanges, 60),
    CheckEntry("filings", machine.filings, 30),
    CheckEntry("pages", machine.pages, 30),
    CheckEntry("tools", model.tools_shown, 60, slow=True),
    CheckEntry("server", model.server, 600, slow=True),
    CheckEntry("model", model.model, 600, turn=True, slow=True),  # after the server, where there is one
)


# Tables with the names that packages add, which this process has no other use for.
_TABLES = ("chordesk.agents.rulebook.policies", "chordesk.tasks.web.app")


def _with_features(own: tuple[CheckEntry, ...]) -> tuple[CheckEntry, ...]:
    """Return the checks with those of features. All that packages bring is loaded here, before the checks run beside
    each other: what does not load, or has a name that there is already, is then known to the check of features."""
    features.load_packages()
    for table in _TABLES:
        import_module(table)
    kinds.run_kinds()
    found, owners = {one.name: one for one in own}, dict[str, str]()
    for feature, checks in features.parts("checks", kind=CheckEntry):
        names = [one.name for one in checks]
        if again := [name for name in names if name in found or names.count(name) > 1]:
            first = features.whose(owners.get(again[0]))
            features.skip(feature, f"among the checks of desk doctor there is {again[0]} already{first}")
        else:
            owners |= dict.fromkeys(names, feature.name)
            found |= {one.name: one for one in checks}
    return tuple(found.values())


ALL = _with_features(_OWN)


def _tell(line: str) -> None:
    """What is late at the start is told beside the output, which may be JSON for a program."""
    print(line, file=sys.stderr)


@contextmanager
def admitted(loaded: Loaded, environ: Mapping[str, str], cwd: Path) -> Iterator[CheckContext]:
    """Services that `desk up` would embed and that do not run now run for the block."""
    settings, trouble, taken, embedded = loaded.settings, None, None, False
    with ExitStack() as held:
        if not is_up(settings.home):
            try:
                if settings.database_url is None:  # in a fleet the port is that of the service which the check runs in
                    plan.require_ports(settings)
            except UsageError as error:
                taken = error
            try:
                made = plan.make(loaded, environ, cwd, None)
                if made.programs:
                    held.enter_context(Stack(made, notify=_tell))
                settings, embedded = made.settings, "redis_url" in made.urls
            except DeskError as error:
                trouble = error
        yield CheckContext(settings, Desk(settings, "doctor"), embedded, trouble, taken)
