"""The try of a choice: what its server can do, and one real turn, as `desk doctor` runs it."""

from __future__ import annotations

from contextlib import ExitStack

from models.errors import DeskError
from models.settings import Settings
from tasks.bootstrap import Desk
from tasks.cli.output import inert, print_line
from tasks.doctor.check import Check, CheckContext, CheckStatus
from tasks.doctor.mirror import request_mirror
from tasks.doctor.model import model

UNEXPECTED = "this is unexpected; please report it"


def tried(settings: Settings) -> bool:
    """Run one turn, print what came of it, and return whether it came to an answer. Raises DeskError."""
    print_line("trying it with one turn; Ctrl-C stops, and nothing is written ...")
    with ExitStack() as held:
        if settings.provider == "rulebook" and settings.rulebook_url is None:
            settings = settings.model_copy(update={"rulebook_url": held.enter_context(request_mirror()).url})
        check = _checked(settings)
    print_line(inert(check.detail))
    if check.remedy:
        print_line(f"remedy: {inert(check.remedy)}")
    return check.status is not CheckStatus.FAIL


def _checked(settings: Settings) -> Check:
    """Return the doctor's check of the model. It runs in this thread, so that a stop signal ends its turn."""
    try:
        return model(CheckContext(settings, Desk(settings, "setup", records=False)))
    except DeskError:
        raise
    except Exception as error:
        return Check("model", CheckStatus.FAIL, f"{type(error).__name__}: {error}", UNEXPECTED)
