"""desk risk: what the pre-trade rules refuse."""

from __future__ import annotations

from typing import Annotated

import typer

from models.setting_sources import load_settings
from tasks.cli.output import console, print_json, table
from tools.risk.codes import CODES


def register(app: typer.Typer) -> None:
    risk = typer.Typer(no_args_is_help=True, help="The rules that every order passes before it is sent.")
    risk.command("codes")(codes)
    app.add_typer(risk, name="risk")


def codes(json_out: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List every denial code: what it refuses, and the limit in force with its setting."""
    settings = load_settings()
    rows = [(code.value, meaning.denies, meaning.limits(settings)) for code, meaning in CODES.items()]
    if json_out:
        print_json([{"code": code, "denies": denies, "settings": dict(limits)} for code, denies, limits in rows])
        return
    shown = [(code, denies, " ".join(f"{name}={value}" for name, value in limits)) for code, denies, limits in rows]
    console().print(table(("code", "denies", "limit"), shown))
