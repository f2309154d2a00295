"""`desk setup`: asks what the user has, tries it with one turn, and writes it into `.env`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from chordesk.models.errors import CodexError, ServiceError, UsageError
from chordesk.tasks.cli.output import fail, print_line, relative, warn
from chordesk.tasks.cli.setup.answers import NO_TERMINAL, decide, market
from chordesk.tasks.cli.setup.choice import OURS, Choice
from chordesk.tasks.cli.setup.flags import Flags
from chordesk.tasks.cli.setup.keys import Before
from chordesk.tasks.cli.setup.person import Person
from chordesk.tasks.cli.setup.plan import Plan, changes_shown, planned, settings_of, to_know
from chordesk.tasks.services import env_file, signals

FAILED = 1
LEFT = 130

commands = typer.Typer()


@commands.command()
def setup(
    provider: Annotated[str | None, typer.Option(help="codex, endpoint, local or rulebook.", metavar="NAME")] = None,
    url: Annotated[
        str | None, typer.Option(help="Base URL of the endpoint, or of the local server.", metavar="URL")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model, as its server lists it.", metavar="NAME")
    ] = None,
    key_env: Annotated[str | None, typer.Option(help="Variable that has the key.", metavar="NAME")] = None,
    key_file: Annotated[Path | None, typer.Option(help="File with the key, as one line.", metavar="PATH")] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="The endpoint asks for no key.")] = False,
    market_name: Annotated[
        str | None, typer.Option("--market", help="replay, yahoo or files; left as it is without.", metavar="NAME")
    ] = None,
    env: Annotated[
        Path | None, typer.Option(help="File to write; the .env that a desk started here reads.", metavar="PATH")
    ] = None,
    no_try: Annotated[bool, typer.Option("--no-try", help="Ask no server and no model anything.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
) -> None:
    """Choose the model and the market, try them with one turn, and write them into `.env`.

    It asks for what no flag says. Without a terminal a missing flag is an error that names it. Exit code 1 when the try
    fails, and then nothing is written.
    """
    flags = Flags(provider, url, model, key_env, key_file, no_key, market_name, look=not no_try)
    path = (env.expanduser().absolute() if env is not None else env_file.find(Path.cwd())).absolute()
    with signals.raised():
        try:
            code = _set_up(flags, path, Person(), yes=yes)
        except (typer.Abort, signals.StopRequested) as left:
            print_line("")
            _nothing_written(path, LEFT)
            raise (left if isinstance(left, signals.StopRequested) else typer.Exit(LEFT)) from None
    raise typer.Exit(code)


def _set_up(flags: Flags, path: Path, person: Person, *, yes: bool) -> int:
    """Return the exit code. Raises UsageError and SettingError for wrong input."""
    text = env_file.read(path)
    variables = env_file.values(text)
    warn(f"{path}, line {number}: no NAME=VALUE, so that no desk reads it" for number in env_file.unread(text))
    others = {name: value for name, value in variables.items() if name not in OURS}
    before = Before(variables, settings_of(others).settings)
    try:
        choice = _decided(flags, before, person)
    except (CodexError, ServiceError) as error:  # what is not there; any other error is wrong input
        return _nothing_written(path, fail(error, FAILED))
    plan = planned(path, text, replace(choice, market=market(flags, before, person)))
    _require_roles(plan)
    if plan.changes and not (yes or person.terminal):
        raise UsageError(f"--yes {NO_TERMINAL}", remedy="add --yes to write the file")
    works = _works(plan, person) if flags.look else True
    if not works and not person.agrees("Write it all the same?", default=False):
        return _nothing_written(path, FAILED)
    if not _agreed(plan, person, yes=yes):
        return _nothing_written(path, FAILED)
    with signals.ignored():  # all of it, or none
        plan.write()
        _tell(plan)
    return 0 if works else FAILED


def _require_roles(plan: Plan) -> None:
    """Raise SettingError where the settings of roles contradict the choice."""
    # Loaded here, and below: it takes seconds, in which the questions would wait.
    from chordesk.tasks.bootstrap import require_roles

    require_roles(plan.loaded.settings)


def _decided(flags: Flags, before: Before, person: Person) -> Choice:
    """Return the choice. Of a person who was asked for it all, it is asked again when something is not there."""
    while True:
        try:
            return decide(flags, before, person)
        except (CodexError, ServiceError) as error:
            if not person.terminal or flags.provider is not None:
                raise
            fail(error, FAILED)


def _works(plan: Plan, person: Person) -> bool:
    """Try the choice, print what came of it and what a screen takes, and return whether it works."""
    from chordesk.tasks.cli.setup.login import ensure_login
    from chordesk.tasks.cli.setup.outlook import screen_lines
    from chordesk.tasks.cli.setup.trial import tried

    settings = plan.loaded.settings
    try:
        ensure_login(settings, person)
        seconds = tried(settings)
        if seconds is not None:
            print_line("\n".join(screen_lines(settings, seconds)))
        return seconds is not None
    except (CodexError, ServiceError) as error:
        fail(error, FAILED)
        return False


def _agreed(plan: Plan, person: Person, *, yes: bool) -> bool:
    """Show what changes, and return whether it may be written."""
    if not plan.changes:
        print_line(f"{relative(plan.path)} has all of it already")
        return True
    print_line("\n".join(changes_shown(plan)))
    return yes or person.agrees("Write it?", default=True)


def _tell(plan: Plan) -> None:
    if plan.changes:
        print_line(f"{relative(plan.path)} is written")
    if plan.choice.key.kept:
        print_line(f"the key is in {plan.choice.key.path}, which only you may read")
    warn(to_know(plan, Path.cwd()))
    print_line("next: `desk up`, and in a second terminal `desk doctor`, then `desk screen --max 10`")


def _nothing_written(path: Path, code: int) -> int:
    print_line(f"nothing was written: {relative(path)} is as it was")
    return code
