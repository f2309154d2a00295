"""`desk risk`: the denial codes of the pre-trade rules."""

from __future__ import annotations

import typer

from models.settings.sources import load_settings
from tasks.cli.output import emit, table
from tasks.cli.shell import Json
from tools.risk.codes import CODES

commands = typer.Typer(name="risk", no_args_is_help=True, help="The rules that every order passes before it is sent.")


@commands.command()
def codes(as_json: Json = False) -> None:
    """List every denial code: what it refuses, and the limit in force with its setting."""
    settings = load_settings()
    rows = [(code.value, meaning.denies, meaning.limits(settings)) for code, meaning in CODES.items()]
    plain = [{"code": code, "denies": denies, "settings": dict(limits)} for code, denies, limits in rows]
    shown = [(code, denies, " ".join(f"{name}={value}" for name, value in limits)) for code, denies, limits in rows]
    emit(plain, lambda _: table(("code", "denies", "limit"), shown), as_json=as_json)
