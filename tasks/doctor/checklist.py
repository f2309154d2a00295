"""The list of checks, and the desk that they run on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chordesk.models import features
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings.running_desk import is_up
from chordesk.models.settings.sources import Loaded
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.doctor import check, machine, model, trading
from chordesk.tasks.doctor.check import CheckContext, CheckEntry
from chordesk.tasks.doctor.installed import features_found
from chordesk.tasks.services import plan
from chordesk.tasks.services.stack import Stack

_OWN = (
    CheckEntry("features", features_found, 10),
    CheckEntry("python", machine.python, 5),
    CheckEntry("codex binary", machine.binary, 20),
    CheckEntry("login", machine.login, 20),
    CheckEntry("room", machine.room, 10),
    CheckEntry("ports", machine.ports, 5),
    CheckEntry("walls", machine.walls, 30),
    CheckEntry("redis", check.redis_server, 10),
    CheckEntry("messages", check.messages, 30),
    CheckEntry("database", check.database, 30),
    CheckEntry("market", trading.market, 60),
    CheckEntry("data", trading.data, 120, slow=True),
    CheckEntry("broker", trading.broker, 60),
    CheckEntry("audit log", trading.audit_log, 30),
    CheckEntry("mandate", trading.mandate, 10),
    CheckEntry("protection", trading.protection, 10),
    CheckEntry("clock", trading.clock, 30),
    CheckEntry("filings", machine.filings, 30),
    CheckEntry("pages", machine.pages, 30),
    CheckEntry("tools", model.tools_shown, 60, slow=True),
    CheckEntry("server", model.server, 600, slow=True),
    CheckEntry("model", model.model, 600, turn=True, slow=True),  # after the server, where there is one
)
ALL = (*_OWN, *(check for _, checks in features.parts("checks") for check in checks))


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
                    held.enter_context(Stack(made))
                settings, embedded = made.settings, "redis_url" in made.urls
            except DeskError as error:
                trouble = error
        yield CheckContext(settings, Desk(settings, "doctor"), embedded, trouble, taken)
