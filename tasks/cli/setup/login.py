"""The Codex login of this host: checked, and made from here by the binary that the desk brings."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from chordesk.models.errors import LoginMissing
from chordesk.models.settings import Settings
from chordesk.tasks.cli.output import print_line
from chordesk.tasks.cli.setup.person import Person


def ensure_login(settings: Settings, person: Person) -> None:
    """Let the person log in where the provider needs it and there is no login. Raises LoginMissing."""
    # Loaded here: it takes seconds, in which the questions would wait.
    from chordesk.tasks.bootstrap import login_command, require_login

    try:
        return require_login(settings)
    except LoginMissing as missing:
        command, own = login_command(settings)
        shown = shlex.join([command[0], *command[3:]])
        reason, remedy = str(missing.args[0]), f"run `{shown}`, or `desk setup` at a terminal, which offers it"
        print_line(reason)
        if not (person.terminal and person.agrees("Log in now? It shows a code to type in at any browser", True)):
            raise LoginMissing(reason, remedy=remedy) from None
    Path(own["CODEX_HOME"]).mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(command, env={**os.environ, **own}, check=False)  # it says itself what goes wrong
    try:
        require_login(settings)
    except LoginMissing as missing:
        raise LoginMissing(f"{missing.args[0]}: the login did not succeed", remedy=remedy) from None
