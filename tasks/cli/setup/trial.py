"""The try of a choice, by the doctor's checks: what its server can do, and one real turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.cli.output import console, inert, print_line
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.doctor.mirror import request_mirror
from chordesk.tasks.doctor.model import model
from chordesk.tasks.doctor.servers import server

UNEXPECTED = "this is unexpected; please report it"
SERVER, TURN = "asking the server what it can do for the model", "trying the model with one turn"


def tried(settings: Settings) -> float | None:
    """Try the model, print what came of it, and return the seconds of its turn; None where it came to no answer. Raises
    DeskError."""
    with ExitStack() as held:
        if settings.provider == "rulebook" and settings.rulebook_url is None:
            settings = settings.model_copy(update={"rulebook_url": held.enter_context(request_mirror()).url})
        context = CheckContext(settings, Desk(settings, "setup", records=False))
        if settings.provider == "local" and _passed(SERVER, server, context) is None:
            return None
        return _passed(TURN, model, context)


def _passed(what: str, check: Callable[[CheckContext], Check], context: CheckContext) -> float | None:
    """Run a check, with a clock at a terminal: a slow model takes minutes. Return its seconds, None where it failed."""
    print_line(f"{what}; Ctrl-C ends it, and nothing is written")
    out = console()
    columns = (SpinnerColumn(), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, refresh_per_second=1, disable=not out.is_terminal) as clock:
        clock.add_task(what, total=None)
        began = time.monotonic()
        found = _result(check, context)
        seconds = time.monotonic() - began
    lines = [found.detail, *([f"remedy: {found.remedy}"] if found.remedy else [])]
    print_line("\n".join(f"  {line}" for line in inert("\n".join(lines)).splitlines()))
    return None if found.status is CheckStatus.FAIL else seconds


def _result(check: Callable[[CheckContext], Check], context: CheckContext) -> Check:
    """Return a check's result. It runs in this thread, so that a stop signal ends its turn."""
    try:
        return check(context)
    except DeskError:
        raise
    except Exception as error:
        return Check("", CheckStatus.FAIL, f"{type(error).__name__}: {error}", UNEXPECTED)
