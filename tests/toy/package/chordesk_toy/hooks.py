"""What the desk asks of the toy: turns, the trader's subject, options, checks, a rule and a graph's role."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Annotated, Any

import typer
from sqlmodel import Session, select

from chordesk.plugins import (
    Check,
    CheckContext,
    CheckEntry,
    NewStep,
    OrderTicket,
    RiskContext,
    Run,
    Settings,
    SizeBound,
    Step,
    ToolContext,
    UsageError,
    ok,
)


def turns_of_screen(params: Mapping[str, Any], settings: Settings, held: int) -> Mapping[str, int]:
    return {"toy": 7}


def brief(session: Session, run_id: str) -> dict[str, Any]:
    return {"toys": {"run": run_id}}


def total_of(session: Session, run: Run) -> int | None:
    step = session.exec(select(Step).where(Step.run_id == run.id, Step.kind == "toy_total")).first()
    return None if step is None or step.result is None else step.result["value"]


def toy_answer(settings: Settings, store: Any, market: Any, text: str) -> SimpleNamespace:
    known = "toys" in text
    return SimpleNamespace(intent="toys" if known else "", text="There are toys." if known else "", missing=[])


def total_text(total: int) -> str:
    return f"The toys came to {total}."


def toy_lineage(made: Any, run_id: str, symbol: str) -> list[str]:
    return [made.add("signal", f"toy-{symbol}", f"{symbol} is a toy", [], None, {})]


def stop_toy(toy: Annotated[bool, typer.Option("--toy", help="Stop the toys alone.")] = False) -> None:
    if toy:
        typer.echo("the toys are stopped")
        raise typer.Exit


def kept_toys(context: ToolContext) -> list[str]:
    return []


def check(context: CheckContext) -> Check:
    return ok("all toys are there")


CHECK = CheckEntry("toys", check, 5)


def find_toys(settings: Settings) -> None:
    if os.environ.get("TOYS") == "lost":
        raise UsageError("the toys are lost", remedy="find them")


def shy(ticket: OrderTicket, context: RiskContext, limits: Settings) -> tuple[str, str, str] | None:
    if not ticket.symbol.startswith("ZZ"):
        return None
    return f"{ticket.symbol} is shy", ticket.symbol[:2], "another beginning"


def require_playable(settings: Settings) -> None:
    if os.environ.get("TOYS") == "lost":
        raise UsageError("no toy can play", remedy="find them")


def play(parent: str, symbol: str, payload: dict[str, Any]) -> NewStep:
    return NewStep("toy_play", parent, symbol, "toy_graph", payload)


def small(context: ToolContext, symbols: Sequence[str]) -> Any:
    """Return the bounds of toys: a symbol that begins with ZZ is never bought."""
    none = [SizeBound(rule="toys", most=0.0, why="a toy is nothing to hold")]
    return lambda symbol, pooled, now: none if symbol.startswith("ZZ") else []


def tidy(app: Any) -> dict[str, int]:
    """A pass, which says that it was done by a file of the desk's home."""
    (app.desk.settings.home / "toys-tidied").touch()
    return {"toys": 1}
