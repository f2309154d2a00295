"""`desk risk`: the denial codes of the pre-trade rules."""

from __future__ import annotations

import typer
from rich.console import Group

from chordesk.models.settings.running_desk import is_up, standing_of
from chordesk.models.settings.sources import load
from chordesk.tasks.cli.output import emit, table
from chordesk.tasks.cli.shell import Json, desk_line

commands = typer.Typer(name="risk", no_args_is_help=True, help="The rules that every order passes before it is sent.")


@commands.command()
def codes(as_json: Json = False) -> None:
    """List every denial code: what it refuses, whether it binds exits, the limit in force."""
    from chordesk.tools.risk.codes import CODES

    loaded = load()
    home = loaded.settings.home
    rows = [(code.value, meaning, dict(meaning.limits(loaded.settings))) for code, meaning in CODES.items()]
    plain = [
        {"code": code, "denies": meaning.denies, "binds_exits": meaning.exits, "settings": limits}
        for code, meaning, limits in rows
    ]
    shown = [
        (code, meaning.denies, meaning.binds, " ".join(f"{name}={value}" for name, value in limits.items()))
        for code, meaning, limits in rows
    ]
    line = desk_line(standing_of(loaded.settings), home, running=loaded.running, held=is_up(home))
    emit(plain, lambda _: Group(table(("code", "denies", "binds", "limit"), shown), line), as_json=as_json)
