"""The pre-flight as a list, and the patient it is made on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from models.errors import DeskError
from models.running import is_up
from models.setting_sources import Loaded
from tasks.bootstrap import Desk
from tasks.doctor import machine, model, safety, services, trading
from tasks.doctor.check import Examination, Patient
from tasks.services import plan
from tasks.services.stack import Stack

ALL = (
    Examination("python", machine.python, 5),
    Examination("codex binary", machine.binary, 20),
    Examination("home", machine.home, 10),
    Examination("redis", services.redis_server, 10),
    Examination("database", services.database, 30),
    Examination("market", trading.market, 60),
    Examination("broker", trading.broker, 60),
    Examination("audit log", safety.audit_log, 30),
    Examination("mandate", safety.mandate, 10),
    Examination("clock", trading.clock, 30),
    Examination("tools", model.tools_shown, 60),
    Examination("model", model.model, 200),
)


@contextmanager
def admitted(loaded: Loaded, environ: Mapping[str, str], cwd: Path) -> Iterator[Patient]:
    """The desk as it is; services that `desk up` would embed, and that do not run now, run for the block."""
    settings, trouble, embedded = loaded.settings, None, False
    with ExitStack() as held:
        if not is_up(settings.home):
            try:
                made = plan.make(loaded, environ, cwd, None)
                if made.programs:
                    held.enter_context(Stack(made))
                settings, embedded = made.settings, "redis_url" in made.urls
            except DeskError as error:
                trouble = error
        yield Patient(settings, Desk(settings, "doctor"), embedded, trouble)
