"""Parts that commands share: the option --json, the settings with the open database, the desk's standing in a line."""

from __future__ import annotations

import datetime as dt
import functools
import getpass
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer
from rich.text import Text

from chordesk.models.errors import DatabaseNew, NothingYet, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import Standing
from chordesk.models.settings.sources import Loaded, load, load_settings

if TYPE_CHECKING:
    from sqlmodel import Session

    from chordesk.models.database.store import Store
    from chordesk.models.tables.runs import Run

Looking = TypeVar("Looking", bound=Callable[..., None])
ANSWERED = "answered_by_the_desk"  # name of the mark
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
OneRun = Annotated[str | None, typer.Argument(help="A run's id, or the beginning of it; else the last run.")]


def looks(nothing: str, *, as_json: str = "[]", answered: bool = True) -> Callable[[Looking], Looking]:
    """Mark a command that changes nothing. nothing: what it says where there is nothing to see yet, with exit code 0;
    as_json: the same for programs. answered: it ends by itself and soon, so that a running desk answers it."""

    def marked(command: Looking) -> Looking:
        @functools.wraps(command)
        def looking(*given: Any, **named: Any) -> None:
            try:
                command(*given, **named)
            except (DatabaseNew, NothingYet) as error:
                why, new = str(error.args[0]), isinstance(error, DatabaseNew)
                line = f"{nothing}: {why}; start it with: desk up" if new else f"{why}; {error.remedy}"
                if named.get("as_json"):
                    typer.echo(as_json)
                typer.echo(line, err=bool(named.get("as_json")))

        vars(looking)[ANSWERED] = answered
        return cast(Looking, looking)

    return marked


class LeftToCaller(BaseException):
    """A command that mostly looks has more to do: its caller runs it itself."""


_FORKED: list[bool] = []  # not empty in a process that answers in place of the caller's own


def leave_to_caller() -> None:
    """Before a command that a running desk answers begins what is not a look: the caller's own process does it."""
    if _FORKED:
        raise LeftToCaller


def answers_here() -> None:
    """This process answers in place of the caller's."""
    _FORKED.append(True)


def is_answered(command: Callable[..., Any] | None) -> bool:
    return getattr(command, ANSWERED, False)


def checked(*, own_switch: bool = False) -> Loaded:
    # Loaded here: most commands have no use for the roles.
    from chordesk.agents.role_models import require_roles

    loaded = load(own_switch=own_switch)
    require_roles(loaded.settings)
    return loaded


def opened() -> tuple[Settings, Store]:
    settings = load_settings()
    return settings, database(settings)


def make_own(settings: Settings) -> None:
    """Make the desk's own database where `desk up` has not made it yet, and need not."""
    from chordesk.models.database.store import current, upgrade

    if settings.database_url is None and current(settings.database)[0] is None:
        upgrade(settings.database)


def last(what: str, id_: str) -> str:
    """Return an id that the desk chose because none was named; say which on stderr."""
    typer.echo(f"the last {what}: {id_}", err=True)
    return id_


def run_of(session: Session, part: str | None, kind: str | None = None, *, acts: bool = False) -> Run:
    """Return the run whose id begins with this; without one the last run of the kind, or of any. acts: something is
    done to it, for which a slip of the hand is not enough."""
    from chordesk.models.database.lookup import ACTS, by_prefix
    from chordesk.models.tables.runs import Run
    from chordesk.tasks.reading.runs import newest_run

    if part is not None:
        return by_prefix(session, Run, part, least=ACTS if acts else 1)
    found = newest_run(session, kind)
    last(kind or f"run, a {found.kind}", found.id)
    return found


def day_of(option: str, text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is no day", remedy="write it as YYYY-MM-DD, such as 2010-08-12") from None


def database(settings: Settings) -> Store:
    from chordesk.models.database.store import open_current

    return open_current(settings.database)


def whoami() -> str:
    """Return user@host, as the system knows them. A record, not a proof: a mandate's signature is one."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def standing_line(standing: Standing) -> Text:
    style = "bold red" if standing.real_money else "bold yellow" if standing.live else ""
    return Text(str(standing), style=style)


def desk_line(standing: Standing, home: Path, *, running: bool, held: bool) -> Text:
    """running: the standing is a running desk's. held: a `desk up` holds the home, also while it starts or ends."""
    yet = " yet, one is starting or ending" if held else ""
    none = f"no `desk up` runs on {home}{yet}; by this terminal's settings"
    owner = f"the desk that runs on {home}" if running else none
    return Text.assemble(f"{owner}: ", standing_line(standing))
